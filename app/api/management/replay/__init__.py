"""Messages sent again."""
