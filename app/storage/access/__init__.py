"""API keys, and the audit of what is changed with them."""
