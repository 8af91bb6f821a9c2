"""A connection to a broker, secured as it is set: bytes in, whole frames out."""

import asyncio
from asyncio import Transport
from collections.abc import Awaitable, Callable
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
# By TLS and SASL brokers and we say more to each other, and reckon.
_SECURED_CONNECT_TIMEOUT: Final = timedelta(seconds=3)
# An answer of which so much comes in the time that an answer may take is waited for.
PACE_BYTES: Final = 64 * 1024
# Of a session that ends: when it is begun anew, so that no request comes after its end.
_RENEWED_AFTER: Final = 0.85
_NEVER: Final = float("inf")
# What opening a connection may end with.
CONNECT_FAILED: Final = (OSError, ValueError, RefusedError, MalformedAnswerError)

_log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Hears what a connection says."""

    def receive(self, frame: bytes) -> None:
        """An answer came; MalformedAnswerError if it is not the next one's."""

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Nothing that comes after it can be trusted."""

    def disconnected(self, link: "Link", exc: Exception | None) -> None:
        """The connection is gone."""


class Link(asyncio.Protocol):
    """One connection of a listener's, which hears nothing of those before it."""

    def __init__(self, listener: Listener, *, bytes_max: int) -> None:
        """No answer has more than `bytes_max` bytes."""
        self._listener = listener
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._looked_at = 0
        self._conversation: _Conversation | None = None
        self._renew_at = _NEVER
        self.transport: Transport | None = None

    @property
    def is_due(self) -> bool:
        """Whether its session ends soon: `authenticate` before anything else is asked."""
        return asyncio.get_running_loop().time() >= self._renew_at

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the socket."""
        self.transport = cast("Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what is whole by now."""
        self._received += data
        try:
            for frame in frames(self._received, bytes_max=self._largest):
                (self._conversation or self._listener).receive(frame)
        except MalformedAnswerError as error:
            (self._conversation or self._listener).misunderstood(error)

    @property
    def _largest(self) -> int:
        # Nobody knows yet who it is that says so much.
        return self._bytes_max if self._conversation is None else ANSWER_BYTES_MAX

    def is_receiving(self) -> bool:
        """Whether so much of an answer came since this was asked last that it is worth waiting."""
        before, now = self._looked_at, len(self._received)
        self._looked_at = now
        return now - (before if before <= now else 0) >= PACE_BYTES

    def abort(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the listener."""
        if self._conversation is not None:
            self._conversation.end(exc or ConnectionResetError("the broker closed the connection"))
        self._listener.disconnected(self, exc)

    async def authenticate(self, credentials: KafkaCredentials) -> None:
        """Say who we are, where that is by SASL: at the beginning, and whenever it `is_due`.

        Nothing else may be asked meanwhile. Raises RefusedError, MalformedAnswerError, OSError.
        """
        if not credentials.security.by_sasl:
            return
        begun = asyncio.get_running_loop().time()
        try:
            lifetime = await self.converse(lambda ask: authenticate(ask, credentials))
        except BaseException:
            # Who has begun to say who he is cannot ask for anything else.
            self.abort()
            raise
        self._renew_at = begun + lifetime.total_seconds() * _RENEWED_AFTER if lifetime else _NEVER

    async def converse(self, talk: Callable[[Ask], Awaitable[T]]) -> T:
        """Have the answers of a while: those to what `talk` asks, one by one."""
        self._conversation = conversation = _Conversation(self.transport)
        try:
            return await talk(conversation.ask)
        finally:
            self._conversation = None


class _Conversation:
    """Requests of which each waits for the answer to the one before."""

    def __init__(self, transport: Transport | None) -> None:
        self._transport = transport
        self._correlation = 0
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, frame: Callable[[int], bytes]) -> bytes:
        """The answer. Raises MalformedAnswerError, OSError."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the broker closed the connection")
        self._correlation += 1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame(self._correlation))
        return await self._answer

    def receive(self, frame: bytes) -> None:
        """As `Listener.receive`."""
        answer, self._answer = self._answer, None
        if answer is None or correlation_of(frame) != self._correlation:
            self._answer = answer
            raise MalformedAnswerError("an answer to what was not asked")
        if not answer.done():
            answer.set_result(frame)

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """As `Listener.misunderstood`."""
        self.end(error)
        # Between two requests nobody waits: what comes then would be kept all the same.
        if self._transport is not None:
            self._transport.abort()

    def end(self, error: Exception) -> None:
        """No answer comes any more."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def connect_timeout(security: KafkaSecurity) -> timedelta:
    """How long it may take until a broker can be asked."""
    is_plain = not security.by_tls and not security.by_sasl
    return _CONNECT_TIMEOUT if is_plain else _SECURED_CONNECT_TIMEOUT


async def connect(
    link: Link, address: Address, *, credentials: KafkaCredentials, patience: CallDeadline
) -> None:
    """Connect `link`, and say who we are, within `patience`.

    Raises RefusedError, MalformedAnswerError, OSError, ValueError (no name of a host).
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
    """Connect `link` to the broker `node` as `connect` does: whether it is."""
    now = asyncio.get_running_loop().time
    if pause.lasts(now()):
        return False
    try:
        await connect(link, address, credentials=credentials, patience=patience)
    except Exception as error:  # noqa: BLE001 - raised here it would end all other appends
        _log.warning("kafka_broker_unreachable", node=node, error=credentials.explained(error))
        if isinstance(error, RefusedError):
            pause.refused(now())
        return False
    pause.taken()
    # It may be gone again already: then nobody would hear of that any more.
    return link.transport is not None and not link.transport.is_closing()


async def renewed(
    link: Link, *, node: int, credentials: KafkaCredentials, patience: CallDeadline
) -> bool:
    """Begin a session anew, within `patience`: whether that is done; else the link is closed."""
    try:
        with patience.limit():
            await link.authenticate(credentials)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("kafka_session_not_renewed", node=node, error=credentials.explained(error))
        return False
    return True
