"""Stores traces of messages: entries are packed, and each day has a partition."""
