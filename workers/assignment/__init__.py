"""What this worker has to do: which partitions and subscriptions it delivers, and its reports."""
