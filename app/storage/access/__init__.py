"""API keys, and the audit of changes."""
