"""Connections to PostgreSQL servers: the URL, the choice among several servers, and refusals."""
