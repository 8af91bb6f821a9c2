"""Messages into the log: appended once, within quotas, traced, and waited for."""
