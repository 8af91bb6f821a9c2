"""Schemas: validation of messages, and compatibility of versions."""
