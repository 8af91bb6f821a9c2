"""The assignment of this worker: cursors for subscriptions in partitions, and heartbeats."""
