"""A connection to a broker with the configured security.

It passes on received data as complete frames. A frame is one response.
"""

import asyncio
from asyncio import Transport
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol, TypeVar, cast

import structlog

from app.domain.kafka_security import KafkaSecurity
from app.log.deadlines import CallDeadline
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.login_pause import LoginPause
from app.log.kafka.protocol.sasl import ANSWER_BYTES_MAX
from app.log.kafka.protocol.wire import MalformedAnswerError, correlation_of, frames
from app.log.kafka.refusals import RefusedError
from app.log.kafka.sasl import Ask, authenticate

T = TypeVar("T")

Address = tuple[str, int]
"""Host and port."""

_CONNECT_TIMEOUT: Final = timedelta(seconds=1)
# The time limit for connecting with TLS or SASL, which need more round trips and CPU time.
_SECURED_CONNECT_TIMEOUT: Final = timedelta(seconds=3)
# If at least this many bytes of a response arrive within the time limit of a request, the time
# limit begins again.
PACE_BYTES: Final = 64 * 1024
# After this part of the lifetime of a session, this client logs in again, so that no request comes
# after the end of the session.
_RENEWED_AFTER: Final = 0.85
_NEVER: Final = float("inf")
# The errors that can be raised when a connection is opened.
CONNECT_FAILED: Final = (OSError, ValueError, RefusedError, MalformedAnswerError)

_log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Gets the frames that a connection receives, and is notified when the connection ends."""

    def receive(self, frame: bytes) -> None:
        """Handle a response of the broker.

        Raises:
            MalformedAnswerError: The response does not belong to the next request.
        """

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Called when the data of a connection cannot be trusted any more."""

    def disconnected(self, link: "Link", exc: Exception | None) -> None:
        """Called when the connection is lost."""


class Link(asyncio.Protocol):
    """One connection, whose frames go to a listener. Each new connection is another `Link`."""

    def __init__(self, listener: Listener, *, bytes_max: int) -> None:
        """Create the connection; no response may be larger than `bytes_max`."""
        self._listener = listener
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._looked_at = 0
        self._conversation: _Conversation | None = None
        self._renew_at = _NEVER
        self.transport: Transport | None = None

    @property
    def is_due(self) -> bool:
        """Whether the login must be repeated, because the session with the broker ends soon.

        Then `authenticate` must be called before other requests.
        """
        return asyncio.get_running_loop().time() >= self._renew_at

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new connection. Called by asyncio."""
        self.transport = cast("Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Add the received bytes, and pass on complete frames. Called by asyncio."""
        self._received += data
        try:
            for frame in frames(self._received, bytes_max=self._largest):
                (self._conversation or self._listener).receive(frame)
        except MalformedAnswerError as error:
            (self._conversation or self._listener).misunderstood(error)

    @property
    def _largest(self) -> int:
        # During the login, allow only small frames, because the other side has not proved yet that
        # it is a broker.
        return self._bytes_max if self._conversation is None else ANSWER_BYTES_MAX

    def is_receiving(self) -> bool:
        """Whether a large part of a response has arrived since the last call.

        If so, the other parts of the response will probably arrive soon, and the connection need
        not be closed.
        """
        before, now = self._looked_at, len(self._received)
        self._looked_at = now
        return now - (before if before <= now else 0) >= PACE_BYTES

    def abort(self) -> None:
        """Close the connection immediately."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the listener that the connection is lost. Called by asyncio."""
        if self._conversation is not None:
            self._conversation.end(exc or ConnectionResetError("the broker closed the connection"))
        self._listener.disconnected(self, exc)

    async def authenticate(self, credentials: KafkaCredentials) -> None:
        """Log in by SASL, if that is configured.

        This is needed at the beginning, and when the session `is_due`. No other request may be sent
        at the same time.

        Raises:
            RefusedError: The broker refuses the credentials.
            MalformedAnswerError: The response is invalid.
            OSError: The connection failed.
        """
        if not credentials.security.by_sasl:
            return
        begun = asyncio.get_running_loop().time()
        try:
            lifetime = await self.converse(lambda ask: authenticate(ask, credentials))
        except BaseException:
            # Close the connection. After an interrupted login, it cannot be used.
            self.abort()
            raise
        self._renew_at = begun + lifetime.total_seconds() * _RENEWED_AFTER if lifetime else _NEVER

    async def converse(self, talk: Callable[[Ask], Awaitable[T]]) -> T:
        """Run `talk`, and return its result.

        `talk` gets a function that sends a request and returns the response.
        """
        self._conversation = conversation = _Conversation(self.transport)
        try:
            return await talk(conversation.ask)
        finally:
            self._conversation = None


class _Conversation:
    """A sequence of requests. Each is sent after the response to the previous one."""

    def __init__(self, transport: Transport | None) -> None:
        self._transport = transport
        self._correlation = 0
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, frame: Callable[[int], bytes]) -> bytes:
        """Send the request that `frame` makes from a correlation id, and return the response.

        Raises:
            MalformedAnswerError: The response is invalid.
            OSError: The connection failed.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the broker closed the connection")
        self._correlation += 1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame(self._correlation))
        return await self._answer

    def receive(self, frame: bytes) -> None:
        """Handle a response."""
        answer, self._answer = self._answer, None
        if answer is None or correlation_of(frame) != self._correlation:
            self._answer = answer
            raise MalformedAnswerError("an answer to what was not asked")
        if not answer.done():
            answer.set_result(frame)

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Called when the data of a connection cannot be trusted any more."""
        self.end(error)
        # Close the connection. The broker sent data although no request waited for a response. Such
        # data is not allowed, and would fill the buffer.
        if self._transport is not None:
            self._transport.abort()

    def end(self, error: Exception) -> None:
        """Let the request that waits for a response fail, because no response will come."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def connect_timeout(security: KafkaSecurity) -> timedelta:
    """Return how long connecting may take, including the login."""
    is_plain = not security.by_tls and not security.by_sasl
    return _CONNECT_TIMEOUT if is_plain else _SECURED_CONNECT_TIMEOUT


async def connect(
    link: Link, address: Address, *, credentials: KafkaCredentials, patience: CallDeadline
) -> None:
    """Connect `link` and log in, within the time limit `patience`.

    Raises:
        RefusedError: The broker refuses the credentials.
        MalformedAnswerError: A response is invalid.
        OSError: The connection failed.
        ValueError: The host name is invalid.
    """
    context, (host, port) = credentials.context(), address
    name = host.rstrip(".") if context is not None else None
    with patience.limit():
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: link, host, port, ssl=context, server_hostname=name)
        await link.authenticate(credentials)


async def connected(
    link: Link,
    address: Address,
    *,
    node: int,
    credentials: KafkaCredentials,
    patience: CallDeadline,
    pause: LoginPause,
) -> bool:
    """Connect `link` to the broker `node`, as `connect` does. Return whether this succeeded.

    While `pause` lasts, after the broker refused a login, do not try to connect.
    """
    now = asyncio.get_running_loop().time
    if pause.lasts(now()) or not await _can_log_in(credentials):
        return False
    try:
        await connect(link, address, credentials=credentials, patience=patience)
    except Exception as error:  # noqa: BLE001 - an error raised here would end all other appends
        _log.warning("kafka_broker_unreachable", node=node, error=credentials.explained(error))
        if isinstance(error, RefusedError):
            pause.refused(now())
        return False
    pause.taken()
    # Check that the connection is still open. If it was lost at the end of the login, nobody was
    # notified.
    return link.transport is not None and not link.transport.is_closing()


async def _can_log_in(credentials: KafkaCredentials) -> bool:
    """Return whether a login is possible now: a login by token needs an access token.

    If there is no token, this does not count as a refusal of the broker. A failed request for a
    token has its own pause and its own log entry.
    """
    if credentials.tokens is None:
        return True
    await credentials.tokens.ready()
    with suppress(RefusedError):
        return bool(credentials.tokens.token())
    return False


async def renewed(
    link: Link, *, node: int, credentials: KafkaCredentials, patience: CallDeadline
) -> bool:
    """Log in again, and return whether this succeeded. If not, close the connection.

    `patience` limits the time of the login.
    """
    try:
        with patience.limit():
            await link.authenticate(credentials)
    except Exception as error:  # noqa: BLE001 - any error closes the link
        _log.warning("kafka_session_not_renewed", node=node, error=credentials.explained(error))
        return False
    return True
