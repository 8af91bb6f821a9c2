"""The state of a subscription in each partition: open messages, finished messages and commits."""
