"""The embedded PostgreSQL: installs it, starts it, shares it between processes, and stops it."""
