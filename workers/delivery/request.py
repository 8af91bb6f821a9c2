"""The headers of a delivery: what is constant for a subscription, and what each message adds."""

import base64
import re
from functools import lru_cache
from typing import Final

from app.domain.message import Message

Header = tuple[bytes, bytes]

USER_AGENT: Final = b"Angelia"

# Only between two neighbours, or about the framing of one message: never passed on (RFC 9110,
# section 7.6.1). Accept-Encoding is one of them because answers are not decompressed.
_NOT_PROPAGATED: Final = frozenset(
    (
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# What every message sets for itself.
_OF_MESSAGE: Final = frozenset(
    (b"content-type", b"hermes-message-id", b"hermes-retry-count", b"idempotency-key")
)
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Control characters become spaces (RFC 9110, section 5.5): no value can end its line.
_PRINTABLE: Final = bytes(
    byte if byte == ord("\t") or (byte >= ord(" ") and byte != 0x7F) else ord(" ")  # noqa: PLR2004 - DEL
    for byte in range(256)
)


class RequestHeaders:
    """Builds the headers of each request to one destination.

    A name that several sources give is sent once, by the most specific of them: Hermes' own
    headers, then the subscription's, then those propagated from the publisher. A propagated header
    that may not be sent is left out; none makes the message undeliverable.
    """

    __slots__ = ("_constant", "_reserved")

    def __init__(self, *, host: bytes, user: str = "", password: str = "") -> None:
        self._constant: list[Header] = [(b"Host", host), (b"User-Agent", USER_AGENT)]
        if user or password:
            self._constant.append((b"Authorization", basic_credentials(user, password)))
        self._reserved = _OF_MESSAGE | {name.lower() for name, _ in self._constant}

    def of(self, message: Message, retry_count: int) -> list[Header]:
        """The headers for one attempt at `message`; `retry_count` is 0 for the first."""
        message_id = message.id.translate(_PRINTABLE)
        headers = [
            *self._constant,
            (b"Content-Type", message.content_type.translate(_PRINTABLE)),
            (b"Hermes-Message-Id", message_id),
            (b"Hermes-Retry-Count", b"%d" % retry_count),
            (b"Idempotency-Key", message_id),
        ]
        for name, value in message.propagated:
            lower = _propagated_name(name)
            if lower is not None and lower not in self._reserved:
                headers.append((name, value.translate(_PRINTABLE)))
        return headers


def basic_credentials(user: str, password: str) -> bytes:
    """The value of an Authorization header for HTTP Basic (RFC 7617, UTF-8)."""
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


@lru_cache(maxsize=1024)
def _propagated_name(name: bytes) -> bytes | None:
    """The name in lower case, or None if no such header is passed on."""
    lower = name.lower()
    return lower if _TOKEN.fullmatch(name) and lower not in _NOT_PROPAGATED else None
