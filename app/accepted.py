"""What a request accepts as its response, by its `Accept` header."""

from typing import Final

TEXT: Final = "text/plain"
JSON: Final = "application/json"


def prefers_text(accept: str) -> bool:
    """Whether it accepts plain text, and not JSON."""
    accepted = accept.lower()
    return TEXT in accepted and JSON not in accepted


def prefers_json(accept: str) -> bool:
    """Whether it names JSON."""
    return JSON in accept.lower()
