"""Retransmissions and republishing: requests, progress, and what workers need for sending."""
