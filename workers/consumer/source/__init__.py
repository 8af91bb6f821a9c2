"""The next messages of a subscription: reading, filters, order and batches."""
