"""Pings: a test message that one worker sends at once, and what it answers to who asked for it.

Both travel as texts that PostgreSQL takes for notifications. They are hints: one that gets lost is
asked for again by whoever waits.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

# PostgreSQL takes notifications of less than 8,000 bytes.
PAYLOAD_BYTES_MAX: Final = 7_500
# Whoever asked waits, so a ping does, however long a delivery may take.
PING_TIMEOUT_MAX: Final = timedelta(seconds=30)
_VALUE_LENGTH_MAX: Final = 500
_HEADERS_MAX: Final = 50


class Ping(NamedTuple):
    """Request `number` of the process `waiter`: a message to that subscription, by that worker."""

    worker: str
    waiter: str
    number: int
    subscription_id: str

    def text(self) -> str:
        """As a notification."""
        return json.dumps({"ping": list(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What TLS has come to."""

    version: str
    cipher: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """What came of a ping. `reason` says why a message would not have been delivered.

    `seconds` is how long it took in all, connecting included. What was answered is in `status` and
    `headers`. `address` is where the request went: the host's, or that of the proxy.
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
        """As a notification, for request `number`; headers that do not fit are left out."""
        short = [
            (name[:_VALUE_LENGTH_MAX], value[:_VALUE_LENGTH_MAX]) for name, value in self.headers
        ]
        kept = short[:_HEADERS_MAX]
        while True:
            said = replace(self, reason=self.reason[:_VALUE_LENGTH_MAX], headers=tuple(kept))
            text = json.dumps({"pong": number, **asdict(said)})
            if len(text) < PAYLOAD_BYTES_MAX or not kept:
                return text
            kept.pop()


def ping_in(text: str) -> Ping | None:
    """The ping in a notification, if it is one."""
    try:
        worker, waiter, number, subscription_id = json.loads(text)["ping"]
    except (ValueError, TypeError, KeyError):
        return None
    return Ping(worker, waiter, number, subscription_id)


def pong_in(text: str) -> tuple[int, Pong] | None:
    """The number of the request and the pong in a notification, if it is one."""
    try:
        members = json.loads(text)
        number, tls = members.pop("pong"), members.pop("tls")
        headers = tuple((name, value) for name, value in members.pop("headers"))
        return number, Pong(**members, headers=headers, tls=Security(**tls) if tls else None)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
