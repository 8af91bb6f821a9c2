"""Secrets in the values of app/domain: how secret fields are marked, and passwords in URLs."""

from collections.abc import Mapping
from dataclasses import Field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

# The text that replaces a secret in responses. It also stands for a secret that cannot be
# decrypted.
MASK: Final = "*****"
# The error text for a request that has the mask in the place of a secret, for example because it is
# a copy of a response.
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
        # Most URLs have no password. Return early for them, because parsing thousands of URLs takes
        # long.
        return None
    credentials, at, _ = urlsplit(url).netloc.rpartition("@")
    _, colon, password = credentials.partition(":")
    return password if at and colon else None


def with_password(url: str, password: str) -> str:
    """Return `url` with its password replaced by `password`."""
    netloc = urlsplit(url).netloc
    credentials, _, host = netloc.rpartition("@")
    user = credentials.partition(":")[0]
    # Replace only the part of the URL with user, password and host. If the whole URL was made again
    # from its parts, its spelling might change.
    return url.replace(f"//{netloc}", f"//{user}:{password}@{host}", 1)
