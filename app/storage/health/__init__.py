"""The workers' reports, the health of subscriptions, and alerts."""
