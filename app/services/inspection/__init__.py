"""Single messages and subscriptions: searched, previewed, traced, pinged."""
