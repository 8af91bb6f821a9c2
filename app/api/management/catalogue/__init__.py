"""Topics, subscriptions, and what belongs to them."""
