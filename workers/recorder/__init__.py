"""Writes undelivered messages and traces from their streams to PostgreSQL."""
