"""API keys, roles, and audit events."""
