"""Kafka's requests, responses and record batches as bytes (pure)."""
