"""Permissions, and the audit of changes."""
