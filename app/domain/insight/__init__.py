"""What Spark's jobs find: analyses, archives, ledgers, simulations."""
