"""Hides secrets in the bodies of requests that pages show as commands."""

from collections.abc import Mapping
from typing import Any, Final

from app.domain.secrets import MASK, masked_url, password_of

# The fields of request bodies whose values are secrets.
_SECRETS: Final = frozenset({"clientSecret", "password", "privateKey", "secret"})
# A header that is sent to an endpoint. Its value may be a secret.
_HEADER: Final = frozenset({"name", "value"})


def concealed(value: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return a JSON value with MASK in the place of each secret, and of passwords in URLs."""
    if isinstance(value, str):
        return _without_password(value)
    if isinstance(value, list | tuple):
        return [concealed(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    secret = _SECRETS | ({"value"} if value.keys() >= _HEADER else set())
    return {
        name: MASK if name in secret and below is not None else concealed(below)
        for name, below in value.items()
    }


def _without_password(text: str) -> str:
    """Return a text that may be a URL, without the URL's password."""
    try:
        masked = masked_url(text)
        # For example, a line end inside the password is not found in the parsed URL.
        return masked if password_of(masked) in {None, MASK} else MASK
    except ValueError:
        # Nobody knows which part of such a URL is a password.
        return MASK
