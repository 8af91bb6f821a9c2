"""Publishing: messages are appended to the log once, within quotas, traced, and awaited."""
