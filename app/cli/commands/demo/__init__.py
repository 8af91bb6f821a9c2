"""`angelia demo`: a stream of shop events, with every message accounted for."""
