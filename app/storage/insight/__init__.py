"""Spark jobs, and what the API shows of their results."""
