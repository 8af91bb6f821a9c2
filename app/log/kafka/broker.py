"""The connection to one broker for appends, which is opened when it is needed.

The connection runs on the event loop and not on another thread. For a single message, a switch to
another thread and back would take longer than the whole append.
"""

import asyncio
from asyncio import Transport
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

import structlog

from app.domain.errors import LogUnavailableError
from app.log.deadlines import CallDeadline
from app.log.interface import LogStats
from app.log.kafka.append_queues import AppendBatch
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.in_flight import InFlight
from app.log.kafka.link import Address, Link, connect_timeout, connected, renewed
from app.log.kafka.login_pause import LoginPause
from app.log.kafka.protocol.appends import ANSWER_BYTES_MAX, Answers, read_answer
from app.log.kafka.protocol.wire import MalformedAnswerError
from app.log.kafka.throttle import Throttle

# The maximum number of unanswered requests on a connection. A broker handles the requests of a
# connection one after the other. With two requests, the broker has the next request as soon as it
# has handled one. Records that arrive while both requests are unanswered are sent together.
IN_FLIGHT_MAX: Final = 2
REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
RECONNECT_AFTER_S: Final = 0.05
_ROUNDING_S: Final = 0.005


_log = structlog.get_logger(__name__)


class RequestListener(Protocol):
    """Receives brokers' responses to appends, and is notified of the connections to brokers."""

    def opened(self) -> None:
        """Called when a connection to a broker is open, and requests can be sent."""

    def answered(self, batches: Sequence[AppendBatch], answers: Answers) -> None:
        """Called with the broker's responses for these batches of records."""

    def lost(self, batches: Sequence[AppendBatch], error: LogUnavailableError) -> None:
        """Called when a connection is lost.

        The batches of records that were in flight on it may be stored or not.
        """

    def unreachable(self, node: int) -> None:
        """Called when the broker cannot be reached.

        The broker may have another address now, or may no longer lead the partitions.
        """


class Broker:
    """Sends produce requests to one broker. The responses arrive in the order of the requests.

    If a response does not come in time, the connection is closed: its requests fail, and the next
    request opens another connection.
    """

    def __init__(
        self,
        node: int,
        owner: RequestListener,
        *,
        credentials: KafkaCredentials,
        tasks: asyncio.TaskGroup,
        answer_timeout: timedelta,
        stats: LogStats,
    ) -> None:
        self._node = node
        self._owner = owner
        self._credentials = credentials
        self._tasks = tasks
        self._login_pause = LoginPause()
        self._connect_patience = CallDeadline(connect_timeout(credentials.security))
        self._link: Link | None = None
        self._transport: Transport | None = None
        self._connecting = False
        self._in_flight: InFlight[Sequence[AppendBatch]] = InFlight(answer_timeout, self._too_late)
        self._preparing = 0
        self._throttle = Throttle(node, stats)

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, and no login is running."""
        is_there = self._transport is not None and not self._transport.is_closing()
        return is_there and not self._connecting

    @property
    def ready(self) -> bool:
        """Whether the broker accepts a request now."""
        has_room = len(self._in_flight) + self._preparing < IN_FLIGHT_MAX
        return self.is_open and has_room and not self._is_due and not self._throttle.left_s

    def open(self, address: Callable[[], Address | None]) -> None:
        """Connect if there is no connection. Notify the listener when this has succeeded or failed.

        If the login of an open connection expires soon, log in again.
        """
        # Do nothing while the old connection is closing. The listener will be notified when it is
        # closed.
        if not self._connecting and (self._transport is None or self._is_due):
            self._connecting = True
            opening = self._connect(address) if self._transport is None else self._renew()
            self._tasks.create_task(self._open(opening))

    def hold(self) -> None:
        """Count a request that is being prepared as in flight, until `release` is called."""
        self._preparing += 1

    def release(self) -> None:
        """Stop counting a prepared request as in flight, after a call of `hold`."""
        self._preparing -= 1

    def send(self, frame: Callable[[int], bytes], batches: Sequence[AppendBatch]) -> None:
        """Send one request. `frame` returns the bytes of the request for a correlation id.

        Call this only while `is_open`.
        """
        correlation = self._in_flight.begin(batches)
        if self._transport is not None:
            self._transport.write(frame(correlation))

    def close(self) -> None:
        """Close the connection; requests in flight fail."""
        if self._transport is not None:
            self._transport.abort()

    # ---- the connection calls these methods (Listener) -------------------------------------------

    def receive(self, frame: bytes) -> None:
        """Handle a response of the broker.

        Raises:
            MalformedAnswerError: The response does not belong to the next request.
        """
        _, answers, throttle_ms = read_answer(frame)
        if throttle_ms > 0:
            self._throttle.note(throttle_ms)
            # After the pause that the broker has asked for, notify the listener that requests can
            # be sent. Do this a little later, because the event loop may round the time down.
            wake_after = self._throttle.left_s + _ROUNDING_S
            asyncio.get_running_loop().call_later(wake_after, self._owner.opened)
        self._owner.answered(self._in_flight.answered(frame), answers)

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Close the connection, because its data cannot be trusted after an invalid response."""
        _log.warning("kafka_answer_malformed", node=self._node, error=str(error))
        self.close()

    def disconnected(self, link: Link, exc: Exception | None) -> None:
        """Report to the listener which batches of records were in flight.

        The batches may be stored or not.
        """
        if link is not self._link:
            return
        self._link = self._transport = None
        batches = [batch for request in self._in_flight.lost() for batch in request]
        error = LogUnavailableError(f"Kafka did not acknowledge: {exc or 'connection closed'}")
        self._owner.lost(batches, error)

    def _too_late(self) -> None:
        _log.warning("kafka_append_timed_out", node=self._node)
        self.close()

    @property
    def _is_due(self) -> bool:
        return self._link is not None and self._link.is_due

    async def _open(self, opening: Coroutine[Any, Any, bool]) -> None:
        try:
            reached = await opening
            if not reached:
                await asyncio.sleep(RECONNECT_AFTER_S)
        finally:
            self._connecting = False
        if reached:
            self._owner.opened()
        else:
            self._owner.unreachable(self._node)

    async def _connect(self, where: Callable[[], Address | None]) -> bool:
        address = where()
        if address is None:
            return False
        link = Link(self, bytes_max=ANSWER_BYTES_MAX)
        if not await connected(
            link,
            address,
            node=self._node,
            credentials=self._credentials,
            patience=self._connect_patience,
            pause=self._login_pause,
        ):
            return False
        self._link, self._transport = link, link.transport
        return True

    async def _renew(self) -> bool:
        await self._in_flight.idle()
        link = self._link
        return link is not None and await renewed(
            link, node=self._node, credentials=self._credentials, patience=self._connect_patience
        )


class RequestRoom:
    """Decides whether another batch of records fits into the next request to each broker."""

    def __init__(self, brokers: dict[int, Broker]) -> None:
        self._brokers = brokers
        self._bytes: dict[int, int] = {}

    def is_left(self, node: int) -> bool:
        """Whether another batch fits into the request to that broker."""
        broker = self._brokers.get(node)
        taken = self._bytes.get(node, 0)
        return broker is not None and broker.ready and taken < REQUEST_BYTES_MAX

    def take(self, batch: AppendBatch) -> None:
        """Add the batch to the request to its broker."""
        self._bytes[batch.leader] = self._bytes.get(batch.leader, 0) + batch.size
