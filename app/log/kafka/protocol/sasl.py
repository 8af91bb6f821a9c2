"""SASL requests and responses: SaslHandshake and SaslAuthenticate, version 1 (pure).

Format: Kafka protocol guide; request header 1 and response header 0, which have no tagged fields.
"""

import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from app.log.kafka.protocol.wire import COUNT, SHORT, MalformedAnswerError, request, string, text

HANDSHAKE: Final = (17, 1)
AUTHENTICATE: Final = (36, 1)
ANSWER_BYTES_MAX: Final = 64 * 1024
# The text of an error shows at most this many of the login mechanisms that a broker offers.
MECHANISMS_MAX: Final = 20
MECHANISM_LENGTH_MAX: Final = 40
# The longest accepted lifetime of a session. A broker may send any number of milliseconds.
LIFETIME_MAX: Final = timedelta(days=365)

_CLIENT: Final = "angelia"
_MILLISECONDS: Final = struct.Struct(">q")


class HandshakeAnswer(NamedTuple):
    """The login mechanisms of the listener.

    Error code 0 means that the listener supports the requested mechanism.
    """

    error_code: int
    mechanisms: Sequence[str]


class AuthenticateAnswer(NamedTuple):
    """The broker's response to a token of the client.

    The response has the broker's own token, and the `lifetime` of the session. The lifetime is zero
    if the session does not end.
    """

    error_code: int
    message: str | None
    token: bytes
    lifetime: timedelta


def handshake_frame(correlation: int, *, mechanism: str) -> bytes:
    """Return a SaslHandshake request for that login mechanism."""
    return request(HANDSHAKE, correlation, client=_CLIENT, body=[string(mechanism)])


def authenticate_frame(correlation: int, *, token: bytes) -> bytes:
    """Return a SaslAuthenticate request with the client's next token."""
    body = [COUNT.pack(len(token)), token]
    return request(AUTHENTICATE, correlation, client=_CLIENT, body=body)


def read_handshake(frame: bytes) -> HandshakeAnswer:
    """Return the content of a response to SaslHandshake.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    try:
        (code,) = SHORT.unpack_from(frame, COUNT.size)
        at = COUNT.size + SHORT.size
        (count,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        mechanisms = []
        for _ in range(min(count, MECHANISMS_MAX)):
            mechanism, at = text(frame, at)
            mechanisms.append((mechanism or "")[:MECHANISM_LENGTH_MAX])
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError("an answer to a SASL handshake that is none") from error
    return HandshakeAnswer(code, mechanisms)


def read_authenticate(frame: bytes) -> AuthenticateAnswer:
    """Return the content of a response to SaslAuthenticate.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    try:
        (code,) = SHORT.unpack_from(frame, COUNT.size)
        message, at = text(frame, COUNT.size + SHORT.size)
        (length,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        token, at = frame[at : at + length], at + length
        (lifetime,) = _MILLISECONDS.unpack_from(frame, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError("an answer to SASL that is none") from error
    return AuthenticateAnswer(code, message, token, _lifetime(lifetime))


def _lifetime(milliseconds: int) -> timedelta:
    most = LIFETIME_MAX // timedelta(milliseconds=1)
    return timedelta(milliseconds=min(max(0, milliseconds), most))
