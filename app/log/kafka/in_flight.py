"""The unanswered requests of a connection. A broker answers them in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

from app.log.deadlines import CallDeadline
from app.log.kafka.protocol.wire import MalformedAnswerError, correlation_of

T = TypeVar("T")


class _Request(Generic[T]):
    __slots__ = ("correlation", "what")

    def __init__(self, correlation: int, what: T) -> None:
        self.correlation = correlation
        self.what = what


class InFlight(Generic[T]):
    """The unanswered requests of a connection, each with its correlation id.

    `too_late` is called for each request without a response within `answer_timeout`.
    """

    def __init__(self, answer_timeout: timedelta, too_late: Callable[[], object]) -> None:
        self._patience = CallDeadline(answer_timeout)
        self._too_late = too_late
        self._requests: deque[_Request[T]] = deque()
        self._correlation = 0
        self._idle: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """The number of requests."""
        return len(self._requests)

    def begin(self, what: T) -> int:
        """Register `what` as a new request, and return the correlation id of the request."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        request = _Request(self._correlation, what)
        self._requests.append(request)
        self._patience.begin(request, self._too_late)
        return request.correlation

    def answered(self, frame: bytes) -> T:
        """Return the request that belongs to the response `frame`.

        Raises:
            MalformedAnswerError: The response does not belong to the next request.
        """
        correlation = correlation_of(frame)
        if not self._requests or self._requests[0].correlation != correlation:
            raise MalformedAnswerError(f"an answer to request {correlation}, which was not next")
        request = self._requests.popleft()
        self._patience.end(request)
        self._note_idle()
        return request.what

    async def idle(self) -> None:
        """Wait until there are no unanswered requests.

        Only one caller may wait at a time. No request may be sent while it waits.
        """
        if self._requests:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def wait_on(self) -> None:
        """Begin the time limits of all requests again, because more of a response has arrived."""
        for request in self._requests:
            self._patience.end(request)
            self._patience.begin(request, self._too_late)

    def lost(self) -> list[T]:
        """Return the unanswered requests, and forget them, because the connection is lost."""
        lost, self._requests = self._requests, deque()
        for request in lost:
            self._patience.end(request)
        self._note_idle()
        return [request.what for request in lost]

    def _note_idle(self) -> None:
        if not self._requests and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
