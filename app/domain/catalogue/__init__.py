"""Topics and subscriptions, and all that can be set for them."""
