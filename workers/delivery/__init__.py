"""One attempt: building the request, sending it, and classifying the response."""
