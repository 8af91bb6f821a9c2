"""One attempt: building the request, sending it, and judging its answer."""
