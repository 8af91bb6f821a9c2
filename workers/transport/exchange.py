"""One request on its way to its answer."""

from asyncio import Future
from typing import Protocol

import httpx

from workers.transport.answer import RawAnswer

# What a request fails of.
Failure = httpx.TransportError


class Carrier(Protocol):
    """Where a request has been written."""

    @property
    def peer(self) -> str:
        """Where it leads, as `host:port`; empty if that is not known."""

    def abort(self) -> None:
        """Close at once, with no answer."""


class PendingExchange(Protocol):
    """A request as a connection sees it, whatever waits for its answer."""

    payload: bytes
    deadline: float
    carrier: Carrier | None

    def succeed(self, answer: RawAnswer) -> None:
        """Hand over the answer; the connection is done with it."""

    def fail(self, error: httpx.TransportError) -> None:
        """Hand over the error; the connection is done with it."""


class Exchange:
    """The bytes of a request, its deadline, and the future of its answer.

    `deadline` is on the loop's clock and covers everything. The answer's exceptions are httpx's.
    `carrier` is set while the request is written and not answered.
    """

    __slots__ = ("answer", "carrier", "deadline", "payload")

    def __init__(self, payload: bytes, deadline: float, answer: Future[RawAnswer]) -> None:
        self.payload = payload
        self.deadline = deadline
        self.answer = answer
        self.carrier: Carrier | None = None

    def succeed(self, answer: RawAnswer) -> None:
        """Hand over the answer, unless it was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: httpx.TransportError) -> None:
        """Hand over the error, unless it was cancelled."""
        self.carrier = None
        if not self.answer.done():
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Close the connection on which an answer would come: nothing waits for it any more."""
        if self.answer.done() and not self.answer.cancelled():
            # It came too late. An error that has been looked at is not reported as forgotten.
            self.answer.exception()
        if self.carrier is not None:
            self.carrier.abort()
