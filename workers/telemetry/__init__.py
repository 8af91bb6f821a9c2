"""What a worker reports of itself: metrics, and whether it is alive and ready."""
