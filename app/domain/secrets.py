"""Secrets in domain values: what marks them, and the one that a URL may have in it."""

from collections.abc import Mapping
from dataclasses import Field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

# Stands where a secret is, in answers; also for one that cannot be read.
MASK: Final = "*****"
# What is wrong with a mask that stands for no secret: in a copy of what was answered, say.
MASKED: Final = "is masked, as answers show it: give the real one"

# Fields declared as `field(repr=False, metadata=SECRET)` are encrypted at rest and shown to nobody.
SECRET: Final[Mapping[str, bool]] = MappingProxyType({"secret": True})


def is_secret(field: Field[Any]) -> bool:
    """Whether the field of a dataclass is declared as a secret."""
    return "secret" in field.metadata


def masked_url(url: str) -> str:
    """`url` with its password, if it has one, replaced by MASK (Hermes: `user:*****@host`)."""
    return url if password_of(url) is None else with_password(url, MASK)


def password_of(url: str) -> str | None:
    """The password in `url`, as it is written there; None if there is none."""
    if "@" not in url:
        # Nearly all: taking a URL apart takes a while, of thousands.
        return None
    credentials, at, _ = urlsplit(url).netloc.rpartition("@")
    _, colon, password = credentials.partition(":")
    return password if at and colon else None


def with_password(url: str, password: str) -> str:
    """`url`, which has a password, with another one."""
    netloc = urlsplit(url).netloc
    credentials, _, host = netloc.rpartition("@")
    user = credentials.partition(":")[0]
    # Replaced in place: put together again from its parts, a URL may be written otherwise.
    return url.replace(f"//{netloc}", f"//{user}:{password}@{host}", 1)
