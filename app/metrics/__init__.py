"""Metrics: the closed list, what is read of them, and how they are told to who collects them."""
