"""Topics, subscriptions, groups and owners: storage, changes, lists and queries."""
