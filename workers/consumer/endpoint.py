"""The endpoint to which a subscription's messages are sent."""

from typing import Protocol

from app.domain.delivery import Outcome
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest


class Endpoint(Protocol):
    """The endpoint to which a subscription's messages are sent."""

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Start an attempt immediately if it need not wait; `listener` gets the outcome later.

        Returns:
            None if nothing was started; then call and await `attempt`.
        """

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Send one POST within one deadline.

        Never raise for errors of the subscriber or network.
        """


class BrokenEndpoint:
    """An endpoint that could not be created because of an unexpected error. Every attempt fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Start nothing: `attempt` raises the error."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Raise the error, as an attempt with an unexpected error does."""
        del message, retry_count
        raise self._error.with_traceback(None)
