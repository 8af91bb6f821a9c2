"""One request that waits for its response."""

from asyncio import Future
from typing import Protocol

import httpx

from workers.transport.answer import RawAnswer
from workers.transport.late_start import LateStartError, MayStart

# The error type of a failed request.
Failure = httpx.TransportError


class Carrier(Protocol):
    """The connection on which a request was written."""

    @property
    def peer(self) -> str:
        """The remote side as `host:port`; empty if unknown."""

    def abort(self) -> None:
        """Close the connection immediately, without a response."""


class PendingExchange(Protocol):
    """A request that a connection sends, and to which it reports the response."""

    payload: bytes
    deadline: float
    carrier: Carrier | None

    def succeed(self, answer: RawAnswer) -> None:
        """Called with the response.

        After that, the connection has no more work for this request.
        """

    def fail(self, error: httpx.TransportError) -> None:
        """Called with the error. Then the connection has no more work for this request."""


class Exchange:
    """The bytes of a request, its deadline, and the future of its response.

    `deadline` is a time of the event loop's clock, for the whole exchange. Errors are httpx
    exceptions. `carrier` is the connection while the request is in flight. If the request had to
    wait for its connection, `may_start` is called before it is written, and decides whether it may
    be written.
    """

    __slots__ = ("answer", "carrier", "deadline", "may_start", "payload")

    def __init__(
        self,
        payload: bytes,
        deadline: float,
        answer: Future[RawAnswer],
        *,
        may_start: MayStart | None = None,
    ) -> None:
        self.payload = payload
        self.deadline = deadline
        self.answer = answer
        self.may_start = may_start
        self.carrier: Carrier | None = None

    def is_still_allowed(self) -> bool:
        """Whether the request, which had to wait, may still be written. If not, let it fail."""
        if self.may_start is None or self.may_start():
            return True
        self.fail(LateStartError())
        return False

    def succeed(self, answer: RawAnswer) -> None:
        """Set the response, unless the exchange was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: httpx.TransportError) -> None:
        """Set the error, unless the exchange was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Close the connection of the request, because nobody waits for the response any more."""
        if self.answer.done() and not self.answer.cancelled():
            # The error came too late for the caller. Read it, because asyncio would log an error
            # that nobody has read.
            self.answer.exception()
        if self.carrier is not None:
            self.carrier.abort()
