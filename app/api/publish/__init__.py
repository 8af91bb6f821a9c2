"""Publishing: raw ASGI routes, which must be fast."""
