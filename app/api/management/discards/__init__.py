"""Undelivered messages."""
