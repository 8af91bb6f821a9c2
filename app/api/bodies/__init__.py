"""Parts that all JSON bodies share."""
