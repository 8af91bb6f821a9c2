"""`angelia demo`: publishes events of a shop, and accounts for every message."""
