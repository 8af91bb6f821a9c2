"""What comes next for a subscription: reading on, filters, order and batches."""
