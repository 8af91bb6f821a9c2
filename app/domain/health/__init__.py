"""Health of subscriptions: evaluated, forecast, and told as alerts."""
