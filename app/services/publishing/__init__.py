"""Publishing: messages are appended to the log once, within quotas, and traced.

A publisher may wait until subscribers have its message.
"""
