"""Results of Spark jobs: analyses, archives, ledgers, simulations."""
