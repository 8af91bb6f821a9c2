"""Fields of topics and subscriptions as JSON."""
