"""Stores traces of messages. Entries are stored in packs, and each day has a partition."""
