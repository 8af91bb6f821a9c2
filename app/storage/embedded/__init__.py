"""The embedded PostgreSQL: it is installed, started, shared by processes, and stopped."""
