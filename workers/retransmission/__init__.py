"""Retransmissions on their way into the log."""
