"""Endpoints: what they may be."""

from app.domain.catalogue.subscription import endpoint_url
from app.domain.errors import ValidationFailedError
from app.domain.secrets import MASK, MASKED


def plain_endpoint(text: str) -> str:
    """`text`, if messages can be POSTed to it as it stands; else ValidationFailedError.

    A masked endpoint is refused: it would send the mask as a password.
    """
    if f":{MASK}@" in text:
        raise ValidationFailedError.of("endpoint", f"has a password that {MASKED}")
    return endpoint_url(text)
