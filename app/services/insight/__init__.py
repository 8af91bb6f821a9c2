"""Spark jobs and their results: analyses, archives, ledgers, simulations."""
