"""The endpoint of a subscription, to which its messages are sent."""

from typing import Protocol

from app.domain.delivery import Outcome
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest


class Endpoint(Protocol):
    """An endpoint to which the messages of a subscription are sent."""

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Start an attempt now, if nothing must be awaited. `listener` gets the outcome later.

        Returns:
            None if no attempt was started. Then call and await `attempt`.
        """

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Send one POST request within one deadline, and return its outcome.

        Errors of the subscriber or of the network are returned as outcomes, and are not raised.
        """


class BrokenEndpoint:
    """An endpoint that could not be created because of an unexpected error. Every attempt fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Start nothing. The caller must use `attempt`, which raises the error."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Raise the error that prevented creating the endpoint."""
        del message, retry_count
        raise self._error.with_traceback(None)
