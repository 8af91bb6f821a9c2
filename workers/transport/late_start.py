"""Whether a request that had to wait for its connection may still be sent.

The consumer checks the rate, deferrals and suspensions when a request begins. A request on an open
connection is written immediately. Other requests wait until a connection is opened, and meanwhile
the subscriber may ask for a pause. So a request that had to wait is checked again just before it is
written.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

import httpx

MayStart = Callable[[], bool]


class LateStartError(httpx.TransportError):
    """The request was not sent, because it was not allowed any more when it had a connection."""

    def __init__(self) -> None:
        super().__init__("Not sent: the request was no longer allowed when it got a connection")


_MAY_START: Final[ContextVar[MayStart | None]] = ContextVar("may_start", default=None)


def set_may_start(may_start: MayStart) -> None:
    """Store the check that the next request of this context must pass if it has to wait."""
    _MAY_START.set(may_start)


def take_may_start() -> MayStart | None:
    """Return the check for the request of this context, and remove it from the context.

    A connection that the request opens keeps a copy of the context. With the check, the copy would
    keep the message in memory.
    """
    may_start = _MAY_START.get()
    if may_start is not None:
        _MAY_START.set(None)
    return may_start
