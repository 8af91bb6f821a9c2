"""What listens at Kafka's bootstrap addresses, where no broker answers as we ask.

Brokers close a connection that is not of their listener's protocol without a word: so they are
asked in each of the protocols that there are.
"""

import asyncio
import ssl
import struct
from datetime import timedelta
from typing import Final

from app.log.kafka.link import Address

ANSWER_WITHIN: Final = timedelta(seconds=2)

_CORRELATION: Final = 1
_SASL_HANDSHAKE: Final = 17
_NO_SASL_HERE: Final = 34
_TLS_ALERT: Final = b"\x15\x03"
_SHOWN_MAX: Final = 20
_READ_MAX: Final = 4_096
_NOT_SPOKEN: Final = (
    "which Angelia does not speak to Kafka: give it the address of a PLAINTEXT listener"
)


async def what_listens(bootstrap: str) -> str:
    """Of the first address that is no listener for us, what it is; empty where all are or none is.

    `bootstrap`: host:port,… as in the settings.
    """
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        if host and port.isdigit() and (problem := await _problem((host.strip("[]"), int(port)))):
            return f"{text.strip()} {problem}"
    return ""


async def _problem(address: Address) -> str:
    try:
        said = await _said(address)
    except OSError:
        # A listener for TLS may reset a connection that begins otherwise.
        said = b""
    if said.startswith(b"HTTP/"):
        return "speaks HTTP, and not Kafka's protocol"
    if said.startswith(_TLS_ALERT) or (not said and await _takes_tls(address)):
        return f"wants TLS, {_NOT_SPOKEN}"
    if not said:
        return ""
    return _of_answer(said)


def _of_answer(said: bytes) -> str:
    """What an answer to a SASL handshake says; a listener without SASL refuses it."""
    if len(said) < struct.calcsize(">iih") or said[4:8] != struct.pack(">i", _CORRELATION):
        shown = said[:_SHOWN_MAX].decode("ascii", "replace")
        return f"does not speak Kafka's protocol: it says {shown!r}"
    (error,) = struct.unpack_from(">h", said, 8)
    return "" if error == _NO_SASL_HERE else f"wants SASL, {_NOT_SPOKEN}"


async def _said(address: Address) -> bytes:
    """The beginning of the answer to a SASL handshake; empty if none comes."""
    reader, writer = await asyncio.wait_for(
        asyncio.open_connection(*address), ANSWER_WITHIN.total_seconds()
    )
    try:
        writer.write(_sasl_handshake())
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await reader.read(_READ_MAX)
    except TimeoutError:
        return b""
    finally:
        writer.close()


def _sasl_handshake() -> bytes:
    """Version 1 of the request, for a mechanism that every broker knows of."""
    client, mechanism = b"angelia", b"PLAIN"
    body = struct.pack(">hhih", _SASL_HANDSHAKE, 1, _CORRELATION, len(client)) + client
    body += struct.pack(">h", len(mechanism)) + mechanism
    return struct.pack(">i", len(body)) + body


async def _takes_tls(address: Address) -> bool:
    """Whether a TLS handshake begins, whatever the certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent there
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            _, writer = await asyncio.open_connection(*address, ssl=context)
    except ssl.SSLError as exc:
        # An alert is TLS; what is no TLS at all has no version of it.
        return "ALERT" in (exc.reason or "")
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
