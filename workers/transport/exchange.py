"""One request that waits for its response."""

from asyncio import Future
from typing import Protocol

import httpx

from workers.transport.answer import RawAnswer

# The error of a failed request.
Failure = httpx.TransportError


class Carrier(Protocol):
    """The connection on which a request was written."""

    @property
    def peer(self) -> str:
        """The remote side as `host:port`; empty if unknown."""

    def abort(self) -> None:
        """Close immediately, without a response."""


class PendingExchange(Protocol):
    """A request as a connection sees it."""

    payload: bytes
    deadline: float
    carrier: Carrier | None

    def succeed(self, answer: RawAnswer) -> None:
        """Deliver the response. The connection is finished with it."""

    def fail(self, error: httpx.TransportError) -> None:
        """Deliver the error. The connection is finished with it."""


class Exchange:
    """The bytes of a request, its deadline, and the future of its response.

    `deadline` is on the loop's clock and covers everything. The exceptions are httpx's. `carrier`
    is set while the request is written and not answered.
    """

    __slots__ = ("answer", "carrier", "deadline", "payload")

    def __init__(self, payload: bytes, deadline: float, answer: Future[RawAnswer]) -> None:
        self.payload = payload
        self.deadline = deadline
        self.answer = answer
        self.carrier: Carrier | None = None

    def succeed(self, answer: RawAnswer) -> None:
        """Set the response, unless it was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: httpx.TransportError) -> None:
        """Set the error, unless it was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Close the connection on which a response would come: no one waits for it any more."""
        if self.answer.done() and not self.answer.cancelled():
            # The error came too late. Reading it keeps asyncio from reporting it as never
            # retrieved.
            self.answer.exception()
        if self.carrier is not None:
            self.carrier.abort()
