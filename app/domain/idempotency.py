"""Requests that may be sent again under a key, and their stored responses."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request with its caller's key. `digest` identifies its content; `claim` its holder."""

    caller: str
    key: str
    digest: bytes
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
