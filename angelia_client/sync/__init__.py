"""The client for threads, made from `angelia_client.aio`."""
