"""Topics and their subscribers in memory, so that publishing does not need the database."""
