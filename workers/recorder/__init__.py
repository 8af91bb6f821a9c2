"""Writes the results of deliveries to PostgreSQL: undelivered messages and traces."""
