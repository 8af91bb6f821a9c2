"""Metrics: the list of all metrics, their values, and how they are read."""
