"""Secrets in domain values: how their fields are marked, and passwords in URLs."""

from collections.abc import Mapping
from dataclasses import Field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

# The text that replaces a secret in responses, and a secret that cannot be read.
MASK: Final = "*****"
# The error's text for a mask that was sent in place of a secret, for example in a copied response.
MASKED: Final = "is masked, as answers show it: give the real one"

# Marks a field as a secret. Fields declared as `field(repr=False, metadata=SECRET)` are encrypted
# when stored, and never shown.
SECRET: Final[Mapping[str, bool]] = MappingProxyType({"secret": True})


def is_secret(field: Field[Any]) -> bool:
    """Whether the field of a dataclass is declared as a secret."""
    return "secret" in field.metadata


def masked_url(url: str) -> str:
    """Return `url` with its password, if any, replaced by MASK (Hermes: `user:*****@host`)."""
    return url if password_of(url) is None else with_password(url, MASK)


def password_of(url: str) -> str | None:
    """Return the raw password in `url`; None if there is none."""
    if "@" not in url:
        # Return early in the usual case. To parse thousands of URLs takes a while.
        return None
    credentials, at, _ = urlsplit(url).netloc.rpartition("@")
    _, colon, password = credentials.partition(":")
    return password if at and colon else None


def with_password(url: str, password: str) -> str:
    """Return `url` with its password replaced by `password`."""
    netloc = urlsplit(url).netloc
    credentials, _, host = netloc.rpartition("@")
    user = credentials.partition(":")[0]
    # Replace only this part of the text. A URL that is built again from its parts may be written
    # differently.
    return url.replace(f"//{netloc}", f"//{user}:{password}@{host}", 1)
