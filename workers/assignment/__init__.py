"""What this worker has to do.

Which partitions and subscriptions it delivers, and its heartbeats.
"""
