"""Publishing: ASGI routes without a framework, because they must be fast."""
