"""Delivering: one consumer for each subscription, from what it reads to what it commits."""
