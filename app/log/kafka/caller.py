"""Requests to one broker whose callers wait for the response.

Each such broker has a separate connection, which is opened when it is needed.
"""

import asyncio
from asyncio import Transport
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from app.domain.errors import LogUnavailableError
from app.log.deadlines import CallDeadline
from app.log.kafka.client import NotSentError
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.in_flight import InFlight
from app.log.kafka.link import Address, Link, connect_timeout, connected, renewed
from app.log.kafka.login_pause import LoginPause
from app.log.kafka.protocol.wire import MalformedAnswerError

# The maximum size of a response in bytes. A broker always sends the first record batch of a
# partition whole, and a topic may allow batches of this size.
ANSWER_BYTES_MAX: Final = 128 * 1024 * 1024
# If several requests are sent together, this process waits so long before it reads the responses. A
# broker sends each response alone, and each response would wake this process. After this time, most
# responses are read at once.
READ_TOGETHER: Final = timedelta(milliseconds=20)

_log = structlog.get_logger(__name__)

_Answer = asyncio.Future[bytes]

Frame = Callable[[int], bytes]
"""Makes a request, with its length prefix, from a correlation id."""


class BrokerCaller:
    """Sends requests, and returns the responses, which arrive in the order of the requests.

    If no data arrives for longer than a response may take, the connection is closed. Its requests
    fail, and the next request opens another connection.
    """

    def __init__(
        self,
        node: int,
        address: Callable[[], Address | None],
        *,
        credentials: KafkaCredentials,
        answer_timeout: timedelta,
        read_together: timedelta = READ_TOGETHER,
    ) -> None:
        self._node = node
        self._address = address
        self._credentials = credentials
        self._read_together_s = read_together.total_seconds()
        self._login_pause = LoginPause()
        self._connect_patience = CallDeadline(connect_timeout(credentials.security))
        self._opening = asyncio.Lock()
        self._tries = 0
        self._link: Link | None = None
        self._transport: Transport | None = None
        self._in_flight: InFlight[_Answer] = InFlight(answer_timeout, self._too_late)
        self._closed = False

    async def ask(self, frame: Frame) -> bytes:
        """Return the response to a request, without the length prefix of the response.

        Raises:
            NotSentError: There is no connection.
            LogUnavailableError: There was no response.
        """
        (answer,) = await self.ask_all([frame])
        return await answer

    async def ask_all(self, frames: Iterable[Frame]) -> "list[asyncio.Future[bytes]]":
        """Send requests together, and return a future for the response to each request.

        If there are several requests, their responses are read a little later, together.

        Raises:
            NotSentError: There is no connection.
        """
        transport, loop = await self._opened(), asyncio.get_running_loop()
        written, answers = [], list[_Answer]()
        for frame in frames:
            answers.append(loop.create_future())
            written.append(frame(self._in_flight.begin(answers[-1])))
        transport.write(b"".join(written))
        if len(answers) > 1:
            transport.pause_reading()
            loop.call_later(self._read_together_s, transport.resume_reading)
        return answers

    def close(self) -> None:
        """Close the connection, and open no new connection. Waiting callers get an error."""
        self._closed = True
        self._abort()

    # ---- the connection calls these methods (Listener) -------------------------------------------

    def receive(self, frame: bytes) -> None:
        """Handle a response."""
        answer = self._in_flight.answered(frame)
        # Ignore the response if its caller was cancelled.
        if not answer.done():
            answer.set_result(frame)

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Called when the data of a connection cannot be trusted any more."""
        _log.warning("kafka_answer_malformed", node=self._node, error=str(error))
        self._abort()

    def disconnected(self, link: Link, exc: Exception | None) -> None:
        """Called when the connection is lost."""
        if link is not self._link:
            return
        self._link = self._transport = None
        for answer in self._in_flight.lost():
            if not answer.done():
                message = f"Kafka did not answer: {exc or 'connection closed'}"
                answer.set_exception(LogUnavailableError(message))

    def _too_late(self) -> None:
        if self._link is not None and self._link.is_receiving():
            # Keep the connection while a large response is still arriving. On a new connection, the
            # whole response would have to be sent again.
            self._in_flight.wait_on()
            return
        _log.warning("kafka_read_timed_out", node=self._node)
        self._abort()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _opened(self) -> Transport:
        tries = self._tries
        async with self._opening:
            # If another caller tried to connect while this caller waited for the lock, do not try
            # again, even if the connection failed.
            if tries == self._tries and (self._transport is None or self._transport.is_closing()):
                await self._open()
                self._tries += 1
            elif self._link is not None and self._link.is_due:
                await self._renew(self._link)
        if self._closed:
            self._abort()
        if self._transport is None or self._transport.is_closing():
            raise NotSentError(f"no connection to broker {self._node}")
        return self._transport

    async def _open(self) -> None:
        address = None if self._closed else self._address()
        if address is None:
            return
        link = Link(self, bytes_max=ANSWER_BYTES_MAX)
        if await connected(
            link,
            address,
            node=self._node,
            credentials=self._credentials,
            patience=self._connect_patience,
            pause=self._login_pause,
        ):
            # Forget the old connection, which is lost or closing. Its unanswered requests fail.
            if self._link is not None:
                self.disconnected(self._link, None)
            self._link, self._transport = link, link.transport

    async def _renew(self, link: Link) -> None:
        await self._in_flight.idle()
        await renewed(
            link, node=self._node, credentials=self._credentials, patience=self._connect_patience
        )


class Callers:
    """Has one `BrokerCaller` for each broker and each use, which is created when it is needed."""

    def __init__(
        self,
        address: Callable[[int], Address | None],
        *,
        credentials: KafkaCredentials,
        answer_timeout: timedelta,
    ) -> None:
        """Create the callers; `address` returns the address of a broker by its number."""
        self._address = address
        self._credentials = credentials
        self._answer_timeout = answer_timeout
        self._callers: dict[tuple[int, Hashable], BrokerCaller] = {}
        self.closed = False

    def of(self, node: int, use: Hashable = None) -> BrokerCaller:
        """Return the caller of the broker with the number `node`.

        Each `use` has a separate caller with a separate connection, so that one use does not wait
        for another.
        """
        caller = self._callers.get((node, use))
        if caller is None:
            address = partial(self._address, node)
            caller = BrokerCaller(
                node,
                address,
                credentials=self._credentials,
                answer_timeout=self._answer_timeout,
            )
            self._callers[node, use] = caller
            if self.closed:
                caller.close()
        return caller

    def close(self) -> None:
        """Close all connections; waiting callers get an error."""
        self.closed = True
        for caller in self._callers.values():
            caller.close()
