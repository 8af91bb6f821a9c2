"""Delivery: one consumer for each subscription, from reading a message to committing it."""
