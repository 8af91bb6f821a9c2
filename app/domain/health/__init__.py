"""Health of subscriptions: evaluation, forecasts, and alerts."""
