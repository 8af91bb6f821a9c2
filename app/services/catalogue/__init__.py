"""Topics and subscriptions: creation, changes, lists, queries and deletion."""
