"""Spark jobs, and their results for the API."""
