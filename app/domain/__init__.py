"""Domain terms and pure decisions: topics, subscriptions, outcomes. Standard library only."""
