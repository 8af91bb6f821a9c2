"""Reads the log once for all subscriptions: new messages, and older ones for cursors that lag."""
