"""Publishing: appends messages to the log within quotas, and writes their traces.

Duplicates are not stored again. A publisher may wait until subscribers have its message.
"""
