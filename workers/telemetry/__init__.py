"""What a worker shows of itself: its metrics, and whether it lives and is ready."""
