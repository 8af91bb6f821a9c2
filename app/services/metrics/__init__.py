"""Metrics of topics, subscriptions and API processes."""
