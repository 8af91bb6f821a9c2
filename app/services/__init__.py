"""Use cases of the API processes. Each use case is one method, and mostly one transaction."""
