"""Kafka's requests, answers and record batches as bytes (pure)."""
