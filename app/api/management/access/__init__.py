"""API keys, roles, and the audit."""
