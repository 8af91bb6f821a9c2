"""Reads the log once for all subscriptions: at the tail, and fairly for cursors that lag."""
