"""Where a subscription's messages are sent."""

from typing import Protocol

from app.domain.delivery import Outcome
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest


class Endpoint(Protocol):
    """Where a subscription's messages are sent."""

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Start an attempt now, if it does not have to wait. `listener` gets the outcome later.

        Returns:
            None if no attempt was started; then call and await `attempt`.
        """

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Send one POST within one deadline.

        Errors of the subscriber or network are outcomes; they are not raised.
        """


class BrokenEndpoint:
    """An endpoint that could not be created because of an unexpected error. Every attempt fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Do nothing. Use `attempt`, which raises the error."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Raise the error, as an attempt with an unexpected error does."""
        del message, retry_count
        raise self._error.with_traceback(None)
