"""`angelia up`: the whole service on this machine, as supervised processes."""
