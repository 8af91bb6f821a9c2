"""Retransmissions and republishing: requested, followed, and sent by workers."""
