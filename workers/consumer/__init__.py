"""Delivery: each subscription has one consumer, from reading a message to committing it."""
