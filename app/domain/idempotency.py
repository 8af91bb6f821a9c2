"""Requests with an idempotency key, which may be repeated, and their stored responses."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request with an idempotency key.

    `digest` identifies the content of the request. `claim` identifies the process that handles the
    request.
    """

    caller: str
    key: str
    digest: bytes
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The stored response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
