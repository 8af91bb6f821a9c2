"""The way to a PostgreSQL server: its URL, which of several servers, and why one refuses us."""
