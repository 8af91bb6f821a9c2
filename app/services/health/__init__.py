"""Health of subscriptions: monitored, forecast, and announced as alerts."""
