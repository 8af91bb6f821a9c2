"""What a worker tells of itself: its figures, and whether it lives and is ready."""
