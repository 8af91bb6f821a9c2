"""Reasons of failed attempts, for people to read."""

from datetime import timedelta
from typing import Final

import httpx

from workers.transport.tunneler import TunnelTimeoutError

# The first that an exception is one of counts.
_WORDS: Final[tuple[tuple[type[httpx.TransportError], str], ...]] = (
    (TunnelTimeoutError, "Could not connect through the egress proxy {within}"),
    (httpx.ConnectTimeout, "Could not connect {within}"),
    (httpx.PoolTimeout, "No connection became free {within}"),
    (httpx.TimeoutException, "No complete answer {within}"),
    (httpx.ConnectError, "Could not connect: {problem}"),
    (httpx.ProxyError, "The egress proxy failed: {problem}"),
    (httpx.ProtocolError, "Protocol error: {problem}"),
    (httpx.TransportError, "Connection error: {problem}"),
)


def failure_reason(error: httpx.TransportError, total: timedelta) -> str:
    """Why there was no answer to a request that had `total` time."""
    words = next(words for kind, words in _WORDS if isinstance(error, kind))
    within = f"within {total.total_seconds() * 1000:.0f} ms"
    return words.format(within=within, problem=error)
