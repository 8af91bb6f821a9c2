"""Metrics: the closed list, their values, and how collectors get them."""
