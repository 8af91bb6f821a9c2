"""What this worker has to do: the partitions and subscriptions that it delivers, its reports."""
