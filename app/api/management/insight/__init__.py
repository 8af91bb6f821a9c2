"""Spark jobs, and their results."""
