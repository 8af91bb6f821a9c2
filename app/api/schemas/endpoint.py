"""Endpoints: what they may be, and how those with a password are shown."""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from app.domain.errors import ValidationFailedError
from app.domain.subscription import endpoint_url

MASK: Final = "*****"


def masked(text: str) -> str:
    """`text` with its password, if it has one, replaced by MASK (Hermes: `user:*****@host`)."""
    parts = urlsplit(text)
    credentials, at, host = parts.netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if not (at and colon):
        return text
    return urlunsplit(parts._replace(netloc=f"{user}:{MASK}@{host}"))


def plain_endpoint(text: str) -> str:
    """`text`, if messages can be POSTed to it as it stands; else ValidationFailedError.

    A masked endpoint is refused: it would send the mask as a password.
    """
    if f":{MASK}@" in text:
        raise ValidationFailedError.of("endpoint", "has a masked password: give the real one")
    return endpoint_url(text)
