"""Texts that tell users why an attempt failed."""

from datetime import timedelta
from typing import Final

import httpx

from workers.transport.tunneler import TunnelTimeoutError

# The text for each class of errors. If several classes fit an error, the first one counts.
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
    """Return why a request got no response, as text. `total` is the time limit of the request."""
    words = next(words for kind, words in _WORDS if isinstance(error, kind))
    within = f"within {total.total_seconds() * 1000:.0f} ms"
    return words.format(within=within, problem=error)
