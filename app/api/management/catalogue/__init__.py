"""Topics, subscriptions, and their parts."""
