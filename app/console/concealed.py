"""Hides secrets in the bodies of requests that pages show as commands."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.domain.secrets import MASK

# The fields of request bodies whose values are secrets.
_SECRETS: Final = frozenset({"clientSecret", "password", "privateKey", "secret"})
# A header that is sent to an endpoint. Its value may be a secret.
_HEADER: Final = frozenset({"name", "value"})
_PASSWORD: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*):[^/\s]*@")


def concealed(value: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return a JSON value with MASK in the place of each secret, and of passwords in URLs."""
    if isinstance(value, str):
        return _PASSWORD.sub(rf"\1:{MASK}@", value, count=1) if _PASSWORD.match(value) else value
    if isinstance(value, list | tuple):
        return [concealed(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    secret = _SECRETS | ({"value"} if value.keys() >= _HEADER else set())
    return {
        name: MASK if name in secret and below is not None else concealed(below)
        for name, below in value.items()
    }
