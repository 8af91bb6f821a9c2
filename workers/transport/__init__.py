"""A fast httpx transport for many small POSTs to hosts that may be slow, broken or hostile."""
