"""Topics and their subscribers in memory: what publishing knows without the database."""
