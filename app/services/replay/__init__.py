"""Messages sent again: seeks, retransmissions, republishing."""
