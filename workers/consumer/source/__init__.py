"""The next messages of a subscription: reading ahead, filters, order and batches."""
