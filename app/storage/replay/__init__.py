"""Retransmissions and republishing: requests, progress, and sending by workers."""
