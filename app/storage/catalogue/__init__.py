"""Topics, subscriptions, groups and owners in the database: changes, lists and queries."""
