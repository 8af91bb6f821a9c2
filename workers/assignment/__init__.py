"""What this worker is to deliver: subscriptions and partitions into cursors, and its heartbeat."""
