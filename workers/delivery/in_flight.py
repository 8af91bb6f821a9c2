"""A request in flight. A callback reports its outcome; no task waits for it."""

from typing import Protocol

from app.domain.delivery import Outcome
from workers.transport.answer import RawAnswer
from workers.transport.exchange import Carrier, Failure


class ResponseListener(Protocol):
    """Receives the outcome of an attempt once, after the attempt has started."""

    def on_response(self, outcome: Outcome) -> None:
        """Called with the outcome when the attempt has ended."""

    def on_defect(self, error: Exception) -> None:
        """Called when an unexpected error ended the attempt, and its outcome is unknown."""


class StartedRequest(Protocol):
    """An attempt that was started."""

    @property
    def peer(self) -> str:
        """Return the target of the attempt as `host:port`; empty if unknown."""

    def cancel(self) -> None:
        """End the attempt without a report."""


class ResponseJudge(Protocol):
    """Decides what a response, or its absence, means for the message."""

    def answered(self, answer: RawAnswer) -> Outcome:
        """Return the outcome of a response."""

    def unanswered(self, error: Failure) -> Outcome:
        """Return the outcome when there is no response."""


class InFlightRequest:
    """A request that a connection sends. Its outcome goes to a listener, and not to a future.

    A future with its coroutines would take as much time as all other work for a delivery.
    `deadline` is a time of the event loop's clock.
    """

    __slots__ = ("_judge", "_listener", "carrier", "deadline", "payload")

    def __init__(
        self, payload: bytes, deadline: float, *, judge: ResponseJudge, listener: ResponseListener
    ) -> None:
        self.payload = payload
        self.deadline = deadline
        self.carrier: Carrier | None = None
        self._judge = judge
        self._listener: ResponseListener | None = listener

    @property
    def peer(self) -> str:
        """Return the target of the attempt as `host:port`; empty if unknown."""
        return "" if self.carrier is None else self.carrier.peer

    def succeed(self, answer: RawAnswer) -> None:
        """Report the outcome of the response, unless the request was cancelled."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            outcome = self._judge.answered(answer)
        except Exception as exc:  # noqa: BLE001 - the error must not end the connection
            listener.on_defect(exc)
        else:
            listener.on_response(outcome)

    def fail(self, error: Failure) -> None:
        """Report the outcome of a missing response, unless the request was cancelled."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            outcome = self._judge.unanswered(error)
        except Exception as exc:  # noqa: BLE001 - the error must not end the connection
            listener.on_defect(exc)
        else:
            listener.on_response(outcome)

    def cancel(self) -> None:
        """End the request without a report, and close its connection."""
        listener, self._listener = self._listener, None
        if listener is not None and self.carrier is not None:
            self.carrier.abort()
