"""Why brokers and we do not come together, asked of Kafka's bootstrap addresses themselves.

Brokers close a connection that is not of their listener's protocol without a word: so they are
asked as it is set, and where that fails, in the other protocols that there are.
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
    """Why none of the addresses takes us; empty: that is not known, or one does."""

    problem: str = ""
    is_silent: bool = False


async def what_refuses(bootstrap: str, credentials: KafkaCredentials) -> Unreached:
    """Where no address takes us, why the first one does not, and what to set.

    `bootstrap`: host:port,… as in the settings. One that is silent says less than one that refuses.
    """
    places = [text.strip() for text in bootstrap.split(",")]
    verdicts = await asyncio.gather(*(_verdict(place, credentials) for place in places))
    known = [each for each in verdicts if each is not None and each.problem]
    if None in verdicts or not known:
        return Unreached()
    return min(known, key=lambda verdict: verdict.is_silent)


async def _verdict(place: str, credentials: KafkaCredentials) -> Unreached | None:
    """Of one address; None: it takes us."""
    limit = connect_timeout(credentials.security)
    host, _, port = place.rpartition(":")
    try:
        async with asyncio.timeout((limit + ANSWER_WITHIN).total_seconds()):
            problem = await _refusal((host.strip("[]"), int(port)), credentials)
    except TimeoutError:
        return Unreached(
            f"{place} does not answer within {limit.total_seconds():g} s", is_silent=True
        )
    except Exception:  # noqa: BLE001 - what is no address refuses nothing
        return Unreached()
    return None if problem is None else Unreached(problem and f"{place} {problem}")


async def _refusal(address: Address, credentials: KafkaCredentials) -> str | None:
    """Why we are not taken there, empty if that is not known; None: we are. TimeoutError."""
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
    """Return if a broker takes us there, as it is set. Raises as `connect` does."""

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
    """A `Listener` to a link that is only conversed with."""

    def receive(self, frame: bytes) -> None:
        """What nobody asked."""

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Of what nobody asked."""

    def disconnected(self, link: Link, exc: Exception | None) -> None:
        """The conversation ends."""


async def _explained(address: Address, error: Exception, credentials: KafkaCredentials) -> str:
    """Why we were not taken there, where nothing was said that says it."""
    security = credentials.security
    if isinstance(error, ssl.SSLCertVerificationError):
        return refusals.of_tls(error, security)
    said = await _said_in_the_clear(address)
    if said.startswith(b"HTTP/"):
        return "speaks HTTP, and not Kafka's protocol"
    if not security.by_tls and (
        said.startswith(_TLS_ALERT) or (not said and await _takes_tls(address))
    ):
        return refusals.wants_tls(sasl=security.by_sasl)
    if said and not said.startswith(_TLS_ALERT):
        return _of_answer(said, security)
    return refusals.of_tls(error, security) if isinstance(error, ssl.SSLError) else ""


def _of_answer(said: bytes, security: KafkaSecurity) -> str:
    """What an answer in the clear to a SASL handshake says."""
    if len(said) < struct.calcsize(">iih") or said[4:8] != struct.pack(">i", _CORRELATION):
        shown = said[:_SHOWN_MAX].decode("ascii", "replace")
        return f"does not speak Kafka's protocol: it says {shown!r}"
    (error,) = struct.unpack_from(">h", said, 8)
    return refusals.speaks_no_tls(sasl=error != NO_SASL_HERE) if security.by_tls else ""


async def _said_in_the_clear(address: Address) -> bytes:
    """The beginning of the answer to a SASL handshake; empty if none comes."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(handshake_frame(_CORRELATION, mechanism="PLAIN"))
                return await reader.read(_READ_MAX)
            finally:
                writer.close()
    except OSError:
        # A listener for TLS may reset a connection that begins otherwise.
        return b""


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
    except OSError:
        return False
    writer.close()
    return True
