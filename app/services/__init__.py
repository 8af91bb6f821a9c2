"""Use cases of the API processes: each is one method and one transaction."""
