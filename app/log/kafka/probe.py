"""Finds out why brokers refuse this client, by test connections to the bootstrap addresses.

A broker gives no reason if it closes a connection with the wrong protocol. So the probe tries the
configured protocol. If that fails, the probe tries other protocols.
"""

import asyncio
import ssl
import struct
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from app.domain.kafka_security import KafkaSecurity
from app.log.deadlines import CallDeadline
from app.log.kafka import refusals
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.link import CONNECT_FAILED, Address, Link, connect, connect_timeout
from app.log.kafka.protocol.sasl import ANSWER_BYTES_MAX, handshake_frame, read_handshake
from app.log.kafka.protocol.wire import MalformedAnswerError
from app.log.kafka.refusals import NO_SASL_HERE, RefusedError
from app.log.kafka.sasl import Ask

ANSWER_WITHIN: Final = timedelta(seconds=1)

_CORRELATION: Final = 1
_TLS_ALERT: Final = b"\x15\x03"
_SHOWN_MAX: Final = 20
_READ_MAX: Final = 4_096


class Unreached(NamedTuple):
    """The reason why no address accepts this client.

    The reason is empty if it is unknown, or if an address accepts this client.
    """

    problem: str = ""
    is_silent: bool = False


async def what_refuses(bootstrap: str, credentials: KafkaCredentials) -> Unreached:
    """Return why no address accepts this client, and which setting to change.

    The reason is empty if an address accepts this client. `bootstrap` is host:port,… as in the
    settings. If several addresses have a reason, a broker that refuses counts more than an address
    that does not respond.
    """
    addresses = [text.strip() for text in bootstrap.split(",")]
    verdicts = await asyncio.gather(*(_verdict(address, credentials) for address in addresses))
    known = [each for each in verdicts if each is not None and each.problem]
    if None in verdicts or not known:
        return Unreached()
    return min(known, key=lambda verdict: verdict.is_silent)


async def _verdict(address: str, credentials: KafkaCredentials) -> Unreached | None:
    """Return why `address` refuses this client; None if it accepts this client."""
    limit = connect_timeout(credentials.security)
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout((limit + ANSWER_WITHIN).total_seconds()):
            problem = await _refusal((host.strip("[]"), int(port)), credentials)
    except TimeoutError:
        return Unreached(
            f"{address} does not answer within {limit.total_seconds():g} s", is_silent=True
        )
    except Exception:  # noqa: BLE001 - a text that is not an address is no refusal
        return Unreached()
    return None if problem is None else Unreached(problem and f"{address} {problem}")


async def _refusal(address: Address, credentials: KafkaCredentials) -> str | None:
    """Return why the broker refuses this client; empty if unknown, None if the broker accepts it.

    Raises:
        TimeoutError: The broker does not respond.
    """
    try:
        await _greeted(address, credentials)
    except RefusedError as error:
        return str(error)
    except ConnectionRefusedError:
        return ""
    except CONNECT_FAILED as error:
        problem = await _explained(address, error, credentials)
        if not problem and isinstance(error, TimeoutError):
            raise
        return problem
    return None


async def _greeted(address: Address, credentials: KafkaCredentials) -> None:
    """Check that a broker accepts this client with the configured security.

    If the broker does not accept this client, one of CONNECT_FAILED is raised.
    """

    async def refused_sasl(ask: Ask) -> None:
        answer = read_handshake(await ask(partial(handshake_frame, mechanism="PLAIN")))
        if answer.error_code != NO_SASL_HERE:
            raise RefusedError(refusals.wants_sasl(credentials.security))

    link = Link(_Nobody(), bytes_max=ANSWER_BYTES_MAX)
    patience = CallDeadline(connect_timeout(credentials.security))
    try:
        await connect(link, address, credentials=credentials, patience=patience)
        if not credentials.security.by_sasl:
            with patience.limit():
                await link.converse(refused_sasl)
    finally:
        link.abort()


class _Nobody:
    """A `Listener` that ignores everything. The probe gets all responses from `converse`."""

    def receive(self, frame: bytes) -> None:
        """Ignore a frame (a response) that belongs to no request."""

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Ignore invalid data that belongs to no request."""

    def disconnected(self, link: Link, exc: Exception | None) -> None:
        """Ignore the end of the connection."""


async def _explained(address: Address, error: Exception, credentials: KafkaCredentials) -> str:
    """Return why the broker probably refuses this client, if the broker sent no reason."""
    security = credentials.security
    if isinstance(error, ssl.SSLCertVerificationError):
        return refusals.of_tls(error, security)
    answer = await _answer_in_the_clear(address)
    if answer.startswith(b"HTTP/"):
        return "speaks HTTP, and not Kafka's protocol"
    if not security.by_tls and (
        answer.startswith(_TLS_ALERT) or (not answer and await _takes_tls(address))
    ):
        return refusals.wants_tls(sasl=security.by_sasl)
    if answer and not answer.startswith(_TLS_ALERT):
        return _of_answer(answer, security)
    return refusals.of_tls(error, security) if isinstance(error, ssl.SSLError) else ""


def _of_answer(answer: bytes, security: KafkaSecurity) -> str:
    """Return what an unencrypted response to a SASL handshake shows about the broker."""
    if len(answer) < struct.calcsize(">iih") or answer[4:8] != struct.pack(">i", _CORRELATION):
        shown = answer[:_SHOWN_MAX].decode("ascii", "replace")
        return f"does not speak Kafka's protocol: it says {shown!r}"
    (error,) = struct.unpack_from(">h", answer, 8)
    return refusals.speaks_no_tls(sasl=error != NO_SASL_HERE) if security.by_tls else ""


async def _answer_in_the_clear(address: Address) -> bytes:
    """Return the start of the response to an unencrypted SASL handshake; empty if there is none."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(handshake_frame(_CORRELATION, mechanism="PLAIN"))
                return await reader.read(_READ_MAX)
            finally:
                writer.close()
    except OSError:
        # Ignore the error. A TLS listener may reset a connection that starts without TLS.
        return b""


async def _takes_tls(address: Address) -> bool:
    """Whether the broker starts a TLS handshake, with any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no data is sent on this connection
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            _, writer = await asyncio.open_connection(*address, ssl=context)
    except ssl.SSLError as exc:
        # The reason of the error shows whether the broker sent a TLS alert. Only a TLS server sends
        # an alert. Any other server causes the error "wrong version".
        return "ALERT" in (exc.reason or "")
    except OSError:
        return False
    writer.close()
    return True
