"""Appends the messages of retransmissions to the log."""
