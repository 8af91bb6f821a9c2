"""Trace entries on their way to storage: collected in a process, and packed into records."""
