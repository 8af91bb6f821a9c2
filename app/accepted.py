"""Which form of response a client accepts, by the `Accept` header of its request."""

from typing import Final

TEXT: Final = "text/plain"
JSON: Final = "application/json"


def prefers_text(accept: str) -> bool:
    """Whether the client accepts plain text, and does not accept JSON."""
    accepted = accept.lower()
    return TEXT in accepted and JSON not in accepted


def prefers_json(accept: str) -> bool:
    """Whether the `Accept` header names JSON."""
    return JSON in accept.lower()
