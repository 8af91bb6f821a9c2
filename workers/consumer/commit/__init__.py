"""Where a subscription is in each partition: its open and finished messages, and their commits."""
