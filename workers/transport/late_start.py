"""Checks again whether a request may be sent, after it had to wait for its connection.

A request is counted against its rate when it leaves the consumer. While it waits for a connection,
time passes, and the subscriber may request a pause. A request on an open connection is written
immediately, and needs no second check.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

import httpx

MayStart = Callable[[], bool]


class LateStartError(httpx.TransportError):
    """The request had to wait for its connection, and may not be sent any more."""

    def __init__(self) -> None:
        super().__init__("it waited for a connection until it was not allowed any more")


MAY_START: Final[ContextVar[MayStart | None]] = ContextVar("may_start", default=None)
"""Whether the request of this context may be sent now: set it before the request."""


def require_start(may_start: MayStart | None) -> None:
    """Check that a request may be sent now.

    Raises:
        LateStartError: It may not; nothing was sent.
    """
    if may_start is not None and not may_start():
        raise LateStartError
