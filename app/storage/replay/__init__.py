"""Retransmissions and republishing: requests, progress, and the data that workers need to send."""
