"""One attempt: building the request, sending it, and saying what its answer means."""
