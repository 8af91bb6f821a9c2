"""What an attempt leads to: a retry, a recorded discard, counts and traces."""
