"""A request in flight: its outcome is called back, no task waits for it."""

from typing import Protocol

from app.domain.delivery import Outcome
from workers.transport.answer import RawAnswer
from workers.transport.exchange import Carrier, Failure


class ResponseListener(Protocol):
    """Gets the outcome of an attempt, once, and not before it has begun."""

    def on_response(self, outcome: Outcome) -> None:
        """It is over, and this is what came of it."""

    def on_defect(self, error: Exception) -> None:
        """It is over, and by a defect of ours its outcome is not known."""


class StartedRequest(Protocol):
    """An attempt that was begun."""

    @property
    def peer(self) -> str:
        """Where it goes, as `host:port`; empty if that is not known."""

    def cancel(self) -> None:
        """End it, and report nothing."""


class ResponseJudge(Protocol):
    """Judges answers."""

    def answered(self, answer: RawAnswer) -> Outcome:
        """What an answer means."""

    def unanswered(self, error: Failure) -> Outcome:
        """What it means that there is none."""


class InFlightRequest:
    """An exchange as connections see it (`workers.transport.exchange`), without a future.

    A future and the coroutines around it cost as much as all else that is done for a delivery.
    `deadline` is on the loop's clock.
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
        """As `StartedRequest.peer`."""
        return "" if self.carrier is None else self.carrier.peer

    def succeed(self, answer: RawAnswer) -> None:
        """Report what the answer means, unless it was cancelled."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            outcome = self._judge.answered(answer)
        except Exception as exc:  # noqa: BLE001 - not the connection's to suffer
            listener.on_defect(exc)
        else:
            listener.on_response(outcome)

    def fail(self, error: Failure) -> None:
        """Report what it means that there is no answer, unless it was cancelled."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            outcome = self._judge.unanswered(error)
        except Exception as exc:  # noqa: BLE001 - not the connection's to suffer
            listener.on_defect(exc)
        else:
            listener.on_response(outcome)

    def cancel(self) -> None:
        """Report nothing, and close the connection on which an answer would come."""
        listener, self._listener = self._listener, None
        if listener is not None and self.carrier is not None:
            self.carrier.abort()
