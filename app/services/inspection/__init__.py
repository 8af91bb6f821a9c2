"""Single messages and subscriptions: search, previews, traces, pings."""
