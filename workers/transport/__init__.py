"""An httpx transport on asyncio protocols and httptools, for many connections at once."""
