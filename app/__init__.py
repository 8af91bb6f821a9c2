"""Angelia: HTTP push delivery, from a message log to every subscriber."""
