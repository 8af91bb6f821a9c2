"""What a worker reports about itself: metrics, and whether it is alive and ready."""
