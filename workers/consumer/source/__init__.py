"""Provides the next messages of a subscription: reads, filters, orders and collects them."""
