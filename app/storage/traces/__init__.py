"""Traces of messages: packs of entries, a partition for each day."""
