"""Spark jobs, and what they found."""
