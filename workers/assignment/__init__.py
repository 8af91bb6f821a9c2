"""Decides which partitions and subscriptions this worker delivers, and reports to other workers."""
