"""Spark jobs, and what they found: analyses, archives, ledgers, simulations."""
