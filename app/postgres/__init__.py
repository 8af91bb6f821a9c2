"""Connections to PostgreSQL servers: the URL, the choice of a server, and why one refuses us."""
