"""`angelia demo`: publishes a stream of shop events, and accounts for every message."""
