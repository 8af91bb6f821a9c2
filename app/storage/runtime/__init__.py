"""What running processes tell each other through the database."""
