"""Where a subscription's messages go."""

from typing import Protocol

from app.domain.delivery import Outcome
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest


class Endpoint(Protocol):
    """Where a subscription's messages go."""

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Attempt it at once, if that takes no waiting: `listener` gets the outcome later.

        None: nothing was done, and the attempt is to be awaited.
        """

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """One POST within one deadline; never raises for what a subscriber or a network does."""


class BrokenEndpoint:
    """An endpoint that a defect of ours kept from being made: each attempt fails by that."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Nothing is begun: `attempt` raises the error."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Raise the error, as any defect in an attempt does."""
        del message, retry_count
        raise self._error.with_traceback(None)
