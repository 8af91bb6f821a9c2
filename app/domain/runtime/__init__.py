"""What processes tell each other while they run."""
