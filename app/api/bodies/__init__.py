"""What all JSON bodies share."""
