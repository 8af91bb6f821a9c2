"""Checks of endpoints."""

from app.domain.catalogue.subscription import endpoint_url
from app.domain.errors import ValidationFailedError
from app.domain.secrets import MASK, MASKED


def plain_endpoint(text: str) -> str:
    """Return `text`, if it is a usable URL for POST requests.

    Raises:
        ValidationFailedError: The text is not a usable URL. A masked endpoint is refused too,
            because the mask would be sent as the password.
    """
    if f":{MASK}@" in text:
        raise ValidationFailedError.of("endpoint", f"has a password that {MASKED}")
    return endpoint_url(text)
