"""Topics, subscriptions, their groups and owners: stored, changed, listed, and found by queries."""
