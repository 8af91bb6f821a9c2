"""The OpenAPI document of the whole API."""
