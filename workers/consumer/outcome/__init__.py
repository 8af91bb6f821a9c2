"""What happens after an attempt: a retry or a recorded discard, and counts and traces."""
