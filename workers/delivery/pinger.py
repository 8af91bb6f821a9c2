"""A test message that is sent like a delivery. Its result shows each step of the delivery."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import uuid4

import orjson

from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.subscription import EndpointMode, Subscription
from app.domain.delivery import Delivered, Outcome
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    Message,
    Partition,
    Record,
)
from app.domain.runtime.ping import PING_TIMEOUT_MAX, Pong, Security
from workers.delivery.batch import MessageBatch, framing_of
from workers.delivery.sender import NetworkAccess, Sender
from workers.transport.answer import RawAnswer
from workers.transport.dialer import ConnectionOrigin
from workers.transport.late_start import MayStart
from workers.transport.transport import DeliveryTransport

# The header that marks a test message.
PING_HEADER: Final = b"Angelia-Ping"


class Pinger:
    """Sends test messages as `sender` sends deliveries, but each on a new connection.

    `worker` is the name of this worker, which the results contain.
    """

    def __init__(self, sender: Sender, *, worker: str) -> None:
        self._sender = sender
        self._worker = worker

    async def ping(self, subscription: Subscription) -> Pong:
        """Send a test message and return its result.

        Errors of the subscriber or network are results; they are not raised.
        """
        wanted = _patient(subscription)
        message = _message(wanted)
        pong = Pong(
            worker=self._worker,
            message_id=message.id.decode("ascii"),
            delivered=False,
            seconds=0.0,
            reason=subscription.locked,
        )
        return pong if subscription.locked else await self._sent(wanted, message, pong)

    async def _sent(self, subscription: Subscription, message: Message, pong: Pong) -> Pong:
        transport = _SeenTransport(self._sender.network_access)
        try:
            endpoint = self._sender.destination(subscription, transport=transport)
            begun = time.monotonic()
            outcome = await endpoint.attempt(message, retry_count=0)
            seconds = time.monotonic() - begun
        finally:
            await transport.aclose()
        return _pong_of(replace(pong, seconds=seconds), outcome, transport)


class _Way(NamedTuple):
    """The connection that a request used."""

    address: str
    protocol: str
    tls: Security | None


class _SeenTransport(DeliveryTransport):
    """A transport for one request. It remembers the connection and the response."""

    def __init__(self, network_access: NetworkAccess) -> None:
        super().__init__(
            egress=network_access.egress,
            ca_file=network_access.ca_file,
            proxy=network_access.proxy,
            watch=self._connected,
        )
        self.way: _Way | None = None
        self.answer: RawAnswer | None = None

    async def exchange(
        self,
        origin: ConnectionOrigin,
        payload: bytes,
        *,
        total_s: float,
        may_start: MayStart | None = None,
    ) -> RawAnswer:
        """Send `payload`, and return its response; remember the connection and the response."""
        self.answer = await super().exchange(origin, payload, total_s=total_s, may_start=may_start)
        return self.answer

    def _connected(self, connection: asyncio.BaseTransport) -> None:
        # Read the details of the connection before it is closed, because they are lost then.
        self.way = _way_of(connection)


def _patient(subscription: Subscription) -> Subscription:
    """Return the subscription with the settings that a test message needs.

    Its timeout is short, because a user waits. Its content type is JSON, because a test message
    fits no schema. It sends to one address of the endpoint, which the result names.
    """
    policy = subscription.policy
    timeout = min(policy.request_timeout, PING_TIMEOUT_MAX)
    patient = replace(policy, request_timeout=timeout)
    return replace(
        subscription, policy=patient, content_type=ContentType.JSON, mode=EndpointMode.ANYCAST
    )


def _message(subscription: Subscription) -> Message:
    now = datetime.now(UTC)
    body = {
        "ping": True,
        "topic": subscription.topic,
        "subscription": subscription.name,
        "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    headers = [
        (HEADER_ID, f"ping-{uuid4()}".encode("ascii")),
        (HEADER_CONTENT_TYPE, b"application/json"),
        (HEADER_PROPAGATED_PREFIX + PING_HEADER, b"true"),
    ]
    record = Record(0, int(now.timestamp() * 1000), None, orjson.dumps(body), headers)
    message = Message(record, Partition(subscription.topic, 0))
    return message if subscription.batching is None else _batch_of(message, subscription)


def _batch_of(message: Message, subscription: Subscription) -> Message:
    batching = subscription.batching
    if batching is None:
        return message
    framing = framing_of(batching)
    return MessageBatch(
        [message],
        framing.body([framing.piece(message)]),
        content_type=framing.content_type,
        subscription_id=subscription.id,
    )


def _pong_of(pong: Pong, outcome: Outcome, transport: _SeenTransport) -> Pong:
    delivered = isinstance(outcome, Delivered)
    answer = transport.answer
    headers = answer.headers if answer is not None else []
    answered = replace(
        pong,
        delivered=delivered,
        status=outcome.status,
        reason="" if isinstance(outcome, Delivered) else outcome.reason,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
    )
    return answered if transport.way is None else replace(answered, **transport.way._asdict())


def _way_of(connection: asyncio.BaseTransport) -> _Way:
    host, port = connection.get_extra_info("peername")[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tls = connection.get_extra_info("ssl_object")
    if tls is None:
        return _Way(address, "HTTP/1.1", None)
    cipher = tls.cipher()
    return _Way(
        address,
        "HTTP/2" if tls.selected_alpn_protocol() == "h2" else "HTTP/1.1",
        Security(version=tls.version() or "", cipher=cipher[0] if cipher else ""),
    )
