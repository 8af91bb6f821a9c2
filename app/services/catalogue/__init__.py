"""Topics and subscriptions: created, changed, listed, queried, and deleted."""
