"""The position of a subscription in each partition, its finished messages, and their commits."""
