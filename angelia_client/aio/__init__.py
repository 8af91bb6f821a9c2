"""The client for asyncio; `angelia_client.sync` is made from it."""
