"""Trace entries before they are stored: collected in a process, and packed into records."""
