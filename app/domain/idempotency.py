"""Requests that may be sent again under a key, and what they were answered."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request under its caller's key. `digest` tells it from others; `claim` names its taker."""

    caller: str
    key: str
    digest: bytes
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What a request was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
