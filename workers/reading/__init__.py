"""Reading the log once for all subscriptions: chunks at the tail, fair reads for laggards."""
