"""Messages sent again: retransmissions and republishing."""
