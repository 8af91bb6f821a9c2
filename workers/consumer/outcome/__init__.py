"""What follows an attempt: a retry, a recorded discard, counts and traces."""
