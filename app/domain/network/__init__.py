"""Network rules for outgoing and incoming requests."""
