"""The headers of a delivery: constant ones of the subscription, and the headers of each message."""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Protocol

from app.domain.catalogue.headers import OF_CONNECTION
from app.domain.catalogue.headers import Header as StaticHeader
from app.domain.catalogue.subscription import Subscription
from app.domain.targeted import RecordTarget
from workers.delivery import signatures

Header = tuple[bytes, bytes]

USER_AGENT: Final = b"Angelia"

# The headers that each message adds to its request. They come before all other headers.
_OF_MESSAGE: Final = frozenset(
    (b"hermes-message-id", b"hermes-retry-count", b"hermes-retransmission")
)
_MESSAGE_ID: Final = b"Hermes-Message-Id"
_BATCH_ID: Final = b"Hermes-Batch-Id"
_RETRANSMISSION: Final = b"Hermes-Retransmission"
_IDEMPOTENCY_KEY: Final = b"Idempotency-Key"
_CONTENT_TYPE: Final = b"Content-Type"
_NOT_PROPAGATED: Final = frozenset(name.encode("ascii") for name in OF_CONNECTION)
# A publisher cannot replace these headers of a subscription, because they describe the sender and
# the body of the request.
_KEPT: Final = frozenset((b"authorization", b"content-type", b"user-agent"))
_EVENT_PREFIX: Final = b"ce-"
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Replaces control characters by spaces (RFC 9110, section 5.5). Otherwise a value with a line break
# could add another header.
PRINTABLE: Final = bytes(
    byte if byte == ord("\t") or (byte >= ord(" ") and byte != 0x7F) else ord(" ")  # noqa: PLR2004 - the control character DEL
    for byte in range(256)
)


class Described(Protocol):
    """The parts of a message that are in the headers of its requests."""

    @property
    def id(self) -> bytes:
        """The message id."""

    @property
    def content_type(self) -> bytes:
        """The content type of the body."""

    @property
    def propagated(self) -> Sequence[Header]:
        """The headers from the publisher that are passed on to the subscriber."""


class RequestHeaders:
    """The headers of one subscription's requests: `constant` ones, and the headers of each message.

    If several sources have the same header, it is sent once, from the first source in this order:
    signatures, Hermes' own headers, headers propagated from the publisher, headers of the
    subscription. So, as in Hermes, a subscription's header is used for messages that do not have
    the same header. But headers about the sender, the body and the event always come from the
    subscription. A propagated header that must not be sent is left out, and never makes the message
    undeliverable. A batch has its own id and content type, and nothing is propagated with it.
    """

    __slots__ = ("_replaceable", "_reserved", "constant", "id_name", "is_keyed", "is_typed")

    def __init__(
        self, subscription: Subscription, *, host: bytes, user: str = "", password: str = ""
    ) -> None:
        self.is_keyed = subscription.idempotency_key
        hermes = _identity(subscription) if subscription.identity_headers else []
        self.id_name = _MESSAGE_ID if subscription.batching is None else _BATCH_ID
        above = _OF_MESSAGE | {self.id_name.lower()} | {name.lower() for name, _ in hermes}
        if self.is_keyed:
            above |= {_IDEMPOTENCY_KEY.lower()}
        if subscription.oauth is not None:
            above |= {b"authorization"}
        if subscription.signing_secrets:
            above |= signatures.NAMES
        static = [pair for pair in _encoded(subscription.headers) if pair[0].lower() not in above]
        given = {name.lower() for name, _ in static}
        implied = [(b"User-Agent", USER_AGENT)]
        if user or password:
            implied.append((b"Authorization", basic_credentials(user, password)))
        implied = [pair for pair in implied if pair[0].lower() not in given]
        self.constant: Final[Sequence[Header]] = ((b"Host", host), *implied, *hermes, *static)
        self.is_typed = _CONTENT_TYPE.lower() in given
        constant = {name.lower() for name, _ in self.constant}
        self._replaceable = frozenset(name for name in given if _is_replaceable(name))
        self._reserved = (above | constant | {_CONTENT_TYPE.lower()}) - self._replaceable

    def constant_beside(self, message: Described) -> Sequence[Header]:
        """Return `constant` without the headers that the publisher of `message` replaces."""
        if not self._replaceable or not message.propagated:
            return self.constant
        brought = {_propagated_name(name) for name, _ in message.propagated} & self._replaceable
        if not brought:
            return self.constant
        return [pair for pair in self.constant if pair[0].lower() not in brought]

    def of(
        self, message: Described, retry_count: int, record_target: RecordTarget | None = None
    ) -> list[Header]:
        """Return the headers that are added to the constant ones for one attempt at `message`.

        Args:
            message: The message to send.
            retry_count: 0 for the first attempt.
            record_target: The subscription and the retransmission that sends the message again;
                None for a message that is not sent again.
        """
        message_id = message.id.translate(PRINTABLE)
        headers: list[Header] = []
        if not self.is_typed:
            headers.append((_CONTENT_TYPE, message.content_type.translate(PRINTABLE)))
        headers.append((self.id_name, message_id))
        headers.append((b"Hermes-Retry-Count", b"%d" % retry_count))
        if self.is_keyed:
            headers.append((_IDEMPOTENCY_KEY, message_id))
        if record_target is not None:
            headers.append((_RETRANSMISSION, record_target.job_id.encode("ascii")))
        for name, value in message.propagated:
            lower = _propagated_name(name)
            if lower is not None and lower not in self._reserved:
                headers.append((name, value.translate(PRINTABLE)))
        return headers


def _is_replaceable(name: bytes) -> bool:
    return name not in _KEPT and not name.startswith(_EVENT_PREFIX)


def _identity(subscription: Subscription) -> list[Header]:
    return [
        (b"Hermes-Topic-Name", subscription.topic.encode("ascii")),
        (b"Hermes-Subscription-Name", subscription.name.encode("ascii")),
    ]


def _encoded(headers: Iterable[StaticHeader]) -> Iterator[Header]:
    for header in headers:
        yield header.name.encode("ascii"), header.value.encode("ascii")


def basic_credentials(user: str, password: str) -> bytes:
    """Return the Authorization header for HTTP Basic (RFC 7617, UTF-8)."""
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


@lru_cache(maxsize=1024)
def _propagated_name(name: bytes) -> bytes | None:
    """Return the name in lower case; None if headers of this name are not propagated."""
    lower = name.lower()
    return lower if _TOKEN.fullmatch(name) and lower not in _NOT_PROPAGATED else None
