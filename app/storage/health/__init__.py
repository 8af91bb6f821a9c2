"""What workers report, how subscriptions are by that, and alerts."""
