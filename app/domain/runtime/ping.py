"""Pings: a test message that one worker sends immediately, and its result for the requester.

Ping and result are sent as PostgreSQL notifications. If a notification is lost, the waiting
requester tries again.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

# The maximum size of a notification: PostgreSQL allows less than 8,000 bytes.
PAYLOAD_BYTES_MAX: Final = 7_500
# The maximum duration of a ping. A ping ends after this time, even if the subscription allows
# longer deliveries, because a user waits for the result.
PING_TIMEOUT_MAX: Final = timedelta(seconds=30)
_VALUE_LENGTH_MAX: Final = 500
_HEADERS_MAX: Final = 50


class Ping(NamedTuple):
    """A request to a worker to send a test message for a subscription.

    The process `waiter` waits for the result, and gave this request the number `number`.
    """

    worker: str
    waiter: str
    number: int
    subscription_id: str

    def text(self) -> str:
        """Return the ping as a notification."""
        return json.dumps({"ping": list(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The negotiated TLS parameters of a connection."""

    version: str
    cipher: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The result of a ping.

    Attributes:
        worker: The worker that sent the test message.
        message_id: The id of the test message.
        delivered: Whether the subscriber accepted the test message.
        seconds: The total time, including the time to connect.
        status: The status of the response, if there was one.
        reason: Why the test message was not delivered; empty if it was.
        headers: The headers of the response.
        address: Where the request was sent: to the host, or to the proxy.
        protocol: HTTP/1.1 or HTTP/2.
        tls: The TLS parameters, if TLS was used.
    """

    worker: str
    message_id: str
    delivered: bool
    seconds: float
    status: int | None = None
    reason: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    address: str = ""
    protocol: str = ""
    tls: Security | None = None

    def text(self, number: int) -> str:
        """Return the result as a notification for request `number`.

        Headers that do not fit are left out.
        """
        short = [
            (name[:_VALUE_LENGTH_MAX], value[:_VALUE_LENGTH_MAX]) for name, value in self.headers
        ]
        kept = short[:_HEADERS_MAX]
        while True:
            shortened = replace(self, reason=self.reason[:_VALUE_LENGTH_MAX], headers=tuple(kept))
            text = json.dumps({"pong": number, **asdict(shortened)})
            if len(text) < PAYLOAD_BYTES_MAX or not kept:
                return text
            kept.pop()


def ping_in(text: str) -> Ping | None:
    """Return the ping in a notification; None for other notifications."""
    try:
        worker, waiter, number, subscription_id = json.loads(text)["ping"]
    except (ValueError, TypeError, KeyError):
        return None
    return Ping(worker, waiter, number, subscription_id)


def pong_in(text: str) -> tuple[int, Pong] | None:
    """Return the request number and the result in a notification; None for other notifications."""
    try:
        members = json.loads(text)
        number, tls = members.pop("pong"), members.pop("tls")
        headers = tuple((name, value) for name, value in members.pop("headers"))
        return number, Pong(**members, headers=headers, tls=Security(**tls) if tls else None)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
