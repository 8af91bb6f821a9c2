"""Health, alerts, metrics, and the status of this process."""
