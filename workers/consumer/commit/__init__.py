"""Where a subscription is in each partition, what it has finished, and committing that."""
