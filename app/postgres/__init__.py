"""Connections to PostgreSQL: the URL, the choice of a server, and why a server refuses."""
