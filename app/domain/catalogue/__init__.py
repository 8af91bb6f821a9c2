"""Topics and subscriptions with all their settings."""
