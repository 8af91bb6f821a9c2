"""TLS to subscribers: trusted certificate authorities, client certificates, and readable errors."""

import asyncio
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import httpx

from app.domain.catalogue.client_certificate import ClientCertificate

# The maximum number of cached contexts, one for each client certificate. A context is large,
# because it contains all certificate authorities.
CONTEXTS_MAX: Final = 256
# The maximum number of hosts whose TLS sessions one context stores.
SESSIONS_MAX: Final = 1_000
# How many seconds a TLS session may be resumed. The time is limited, because a server does not show
# its certificate when a session is resumed, and the certificate may have expired.
SESSION_KEPT_S: Final = 3_600.0
# If a context could not be built, it may be built again after this number of seconds. The process
# may have had no free file descriptor for a moment.
FAILURE_KEPT_S: Final = 1.0
# The maximum size of a certificate or key in bytes. A pipe can hold this many bytes before anybody
# reads from it.
_PEM_MAX: Final = 64 * 1024

# A function that returns monotonic seconds.
Clock = Callable[[], float]

_ALPN_HTTP2: Final = ("h2", "http/1.1")
# The texts for alerts by which the other side refuses the client certificate (RFC 8446, section
# 6.2).
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept our certificate: bad certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it does not accept our certificate: unsupported",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it does not accept our certificate: revoked",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it does not accept our certificate: expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept our certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of our certificate",
    "TLSV1_ALERT_ACCESS_DENIED": "it denies our certificate access",
}


class Credentials(NamedTuple):
    """The TLS settings that may differ between requests to an origin.

    Requests with different settings share no connection.
    """

    certificate: ClientCertificate | None = None
    http2: bool = False


PLAIN: Final = Credentials()


class TlsContext(ssl.SSLContext):
    """Trusts the given authorities, speaks TLS 1.2 or newer, and resumes sessions.

    A session is resumed (RFC 8446, section 2.2) only with the host that issued it. To resume a
    session saves both sides the expensive part of the handshake.
    """

    # For each host, its TLS session and the time of the full handshake in which the certificate was
    # checked.
    _sessions: OrderedDict[str, tuple[ssl.SSLSession, float]]
    _clock: Clock

    @classmethod
    def of(
        cls, credentials: Credentials, ca_file: Path | None = None, *, clock: Clock = monotonic
    ) -> "TlsContext":
        """Create a context.

        This takes tens of milliseconds, because it reads the system's authorities.

        Raises:
            httpx.ConnectError: The certificate cannot be used.
            OSError: `ca_file` cannot be read.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._sessions = OrderedDict()
        context._clock = clock
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        if credentials.http2:
            context.set_alpn_protocols(_ALPN_HTTP2)
        if credentials.certificate is not None:
            _show(context, credentials.certificate)
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the parameters are those of ssl
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return a TLS connection as ssl.SSLContext does, with the stored session of the host."""
        if session is None and isinstance(server_hostname, str):
            session = self._resumable(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def learn(self, host: str, tls: ssl.SSLObject) -> None:
        """Store the session of the connection `tls`, so that later connections resume it.

        If this connection itself resumed a stored session, the stored one is kept. It can be
        resumed again, and to read a new session from OpenSSL would take nearly as long as it saves.
        """
        if tls.session_reused:
            return
        session = tls.session
        if session is None or not session.has_ticket:
            return
        self._sessions[host] = session, self._clock()
        self._sessions.move_to_end(host)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def forget(self, host: str) -> None:
        """Drop the session of `host`."""
        self._sessions.pop(host, None)

    def _resumable(self, host: str) -> ssl.SSLSession | None:
        session, begun_at = self._sessions.get(host, (None, 0.0))
        if session is not None and self._clock() - begun_at >= SESSION_KEPT_S:
            self.forget(host)
            return None
        return session


class TlsContexts:
    """The TLS contexts, one for each value of Credentials that is used.

    A context is built outside of the event loop's thread, because this takes long.
    """

    def __init__(self, ca_file: Path | None) -> None:
        self._ca_file = ca_file
        self._threads: ThreadPoolExecutor | None = None
        self._contexts: OrderedDict[Credentials, asyncio.Future[TlsContext]] = OrderedDict()

    async def of(self, credentials: Credentials) -> TlsContext:
        """Return the context for these credentials.

        Raises:
            httpx.ConnectError: The certificate cannot be used.
            OSError: A file cannot be read.
        """
        found = self._contexts.get(credentials)
        if found is None or found.cancelled():
            found = self._contexts[credentials] = self._built(credentials)
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(credentials)
        # Shield the building of the context, so that it continues for other callers if this caller
        # is cancelled.
        return await asyncio.shield(found)

    def close(self) -> None:
        """Stop building contexts."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _built(self, credentials: Credentials) -> asyncio.Future[TlsContext]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="tls")
        loop = asyncio.get_running_loop()
        build = partial(TlsContext.of, credentials, self._ca_file)
        building = loop.run_in_executor(self._threads, build)

        def note(built: asyncio.Future[TlsContext]) -> None:
            # Read the error of the failed building. If the caller was cancelled, nobody else may
            # read the error, and asyncio would log it.
            if not built.cancelled() and built.exception() is not None:
                loop.call_later(FAILURE_KEPT_S, self._forget, credentials, built)

        building.add_done_callback(note)
        return building

    def _forget(self, credentials: Credentials, built: asyncio.Future[TlsContext]) -> None:
        if self._contexts.get(credentials) is built:
            del self._contexts[credentials]


def tls_problem(error: ssl.SSLError) -> str:
    """Return the error of OpenSSL as a text that users understand."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    meaning = _ALERTS.get(reason.upper().replace(" ", "_"))
    return f"TLS failed: {meaning or reason.replace('_', ' ').lower()}"


def _show(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load the client certificate through pipes.

    Python's ssl module reads only files, and a key must not be written to disk.
    """
    try:
        with _file_of(certificate.chain) as chain, _file_of(certificate.private_key) as key:
            # Give an empty password. Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(chain, key, password=b"")
    except (OSError, ValueError) as exc:
        raise httpx.ConnectError("the client certificate or its key cannot be used") from exc


@contextmanager
def _file_of(pem: str) -> Iterator[str]:
    content = pem.encode("ascii")
    if len(content) > _PEM_MAX:
        message = f"longer than {_PEM_MAX} bytes"
        raise ValueError(message)
    source, sink = os.pipe()
    try:
        with os.fdopen(sink, "wb") as writing:
            writing.write(content)
        yield f"/dev/fd/{source}"
    finally:
        os.close(source)
