"""Sends one message with one POST, and returns one outcome."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from weakref import WeakValueDictionary

import httpx
import structlog

from app.domain.catalogue.subscription import EndpointMode, Subscription
from app.domain.catalogue.templates import EndpointTemplate, TemplateError
from app.domain.delivery import Answered, Discarded, Outcome, Retry, Unanswered
from app.domain.message import Message
from app.domain.network.egress import Address, EgressPolicy
from app.domain.network.egress_proxy import EgressProxy
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import BodyError, Budget
from app.otlp.spans import SpanBuffer
from app.schemas.messages import UnreadableError
from workers.delivery.batch import MessageBatch
from workers.delivery.broadcast import BroadcastDestination, UnfinishedAddresses, Way
from workers.delivery.classification import delivered
from workers.delivery.in_flight import InFlightRequest, ResponseListener
from workers.delivery.judge import Judge
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.oauth.destination import TOKEN_TIMEOUT_MAX, AuthorizedDestination
from workers.delivery.oauth.permitted import permitted
from workers.delivery.oauth.source import Tokens
from workers.delivery.plain_requests import PlainRequests
from workers.delivery.request import Described, Header, RequestHeaders
from workers.delivery.shapes import shape_of
from workers.delivery.signatures import Signer
from workers.delivery.spans import SpannedDestination
from workers.transport.answer import RawAnswer
from workers.transport.dialer import ConnectionOrigin
from workers.transport.failures import failure_reason
from workers.transport.late_start import LateStartError, take_may_start
from workers.transport.limits import TransportLimits
from workers.transport.resolver import RefusedAddressError
from workers.transport.tls import Credentials
from workers.transport.transport import DeliveryTransport
from workers.transport.used_connection import USED_CONNECTION
from workers.transport.wire import request_start, whole_request

Clock = Callable[[], datetime]

_log = structlog.get_logger()

# The maximum number of subscriptions whose last warning about a certificate is kept.
_WARNED_MAX: Final = 1_000


class LazyHeaders(Mapping[str, str]):
    """The headers of a response by lower-case name.

    A header is parsed only when it is used, because most headers are not used.
    """

    __slots__ = ("_raw", "_read")

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._read: httpx.Headers | None = None

    def __getitem__(self, name: str) -> str:
        return self._headers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers())

    def __len__(self) -> int:
        return len(self._headers())

    def _headers(self) -> httpx.Headers:
        if self._read is None:
            self._read = httpx.Headers(self._raw)
        return self._read


class _CertificateWarnings:
    """Logs that the certificate of a subscription ends, each text once."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def check(self, subscription: Subscription, now: datetime) -> None:
        shown, group = subscription.client_certificate, subscription.group
        warning = shown.warning(now) if shown else None
        if warning is None or self._logged.get(group) == warning:
            return
        if len(self._logged) >= _WARNED_MAX:
            self._logged.clear()
        self._logged[group] = warning
        _log.warning("client_certificate_ends", subscription=group, problem=warning)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Destination:
    """The endpoint of one subscription.

    Everything that is the same for all requests is computed once. So the sender makes another
    destination when the subscription changes.
    """

    __slots__ = (
        "_bodies",
        "_clock",
        "_headers",
        "_judge",
        "_origin",
        "_plain",
        "_reads_bodies",
        "_shape",
        "_signer",
        "_start",
        "_subscription",
        "_target",
        "_template",
        "_time",
        "_total_s",
        "_transport",
    )

    def __init__(
        self,
        subscription: Subscription,
        *,
        transport: DeliveryTransport,
        clock: Clock,
        bodies: ParsedBodies,
    ) -> None:
        self._template = EndpointTemplate.of(subscription.endpoint)
        self._bodies = bodies
        url = httpx.URL(self._template.sample if self._template else subscription.endpoint)
        self._subscription = subscription
        self._judge = Judge(subscription)
        self._reads_bodies = self._judge.reads_bodies
        self._transport = transport
        self._clock = clock
        self._time = asyncio.get_running_loop().time
        self._headers = RequestHeaders(
            subscription, host=url.netloc, user=url.username, password=url.password
        )
        self._signer = Signer.of(subscription)
        self._shape = shape_of(subscription)
        credentials = Credentials(subscription.client_certificate, subscription.http2)
        self._origin = ConnectionOrigin.of(url, credentials)
        self._target = url.raw_path
        self._start = request_start(b"POST", self._target, self._headers.constant)
        self._plain = self._plain_requests()
        self._total_s = subscription.policy.request_timeout.total_seconds()

    async def attempt(
        self,
        message: Message,
        *,
        retry_count: int,
        authorization: Header | None = None,
    ) -> Outcome:
        """POST `message` once within the policy's `request_timeout`, and judge the response.

        Every error of the subscriber or the network is an outcome. Only a cancellation is raised.
        `retry_count` is the number of attempts before this one.
        """
        request = self.request(message, retry_count, authorization)
        if isinstance(request, Discarded):
            return request
        if (used_connection := USED_CONNECTION.get()) is not None:
            used_connection.forget()  # drop the details of a token request's connection
        try:
            answer = await self._transport.exchange(
                self._origin, request, total_s=self._total_s, may_start=take_may_start()
            )
        except httpx.TransportError as exc:
            return self.unanswered(exc)
        return self.answered(answer)

    async def post(self, request: bytes, way: Way) -> Outcome:
        """POST the bytes of `request` to the target `way`, and judge the response."""
        try:
            answer = await self._transport.exchange(way.origin, request, total_s=way.total_s)
        except httpx.TransportError as exc:
            return self.unanswered(exc)
        return self.answered(answer)

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> InFlightRequest | None:
        """Start an attempt if it does not have to wait. `listener` gets the outcome later.

        Returns:
            None if nothing was started; then await `attempt`.
        """
        request = self.request(message, retry_count, authorization)
        if isinstance(request, Discarded):
            return None
        deadline = self._time() + self._total_s
        in_flight = InFlightRequest(request, deadline, judge=self, listener=listener)
        return in_flight if self._transport.begin(self._origin, in_flight) else None

    @property
    def way(self) -> Way:
        """The target of the requests, and how long each may take."""
        return Way(self._origin, self._total_s)

    async def addresses(self) -> Sequence[Address] | Outcome:
        """Return all current addresses of the host, or an outcome if the look-up fails."""
        try:
            return await self._transport.addresses(self._origin, total_s=self._total_s)
        except httpx.TransportError as exc:
            return self.unanswered(exc)

    def answered(self, answer: RawAnswer) -> Outcome:
        """Return the outcome of a response."""
        status = answer.status
        if 200 <= status < 300 and not self._reads_bodies:  # noqa: PLR2004 - the range of 2xx statuses
            return delivered(status)
        read = Answered(status, LazyHeaders(answer.headers), answer.body)
        return self._judge.outcome(read, self._clock())

    def unanswered(self, error: httpx.TransportError) -> Outcome:
        """Return the outcome if there is no response because of `error`."""
        if isinstance(error, LateStartError):
            return Retry(reason=str(error), blameless=True, unsent=True)
        answer = Unanswered(
            reason=failure_reason(error, self._subscription.policy.request_timeout),
            timed_out=isinstance(error, httpx.TimeoutException),
            refused=isinstance(error, RefusedAddressError),
        )
        return self._judge.outcome(answer, self._clock())

    def request(
        self, message: Message, retry_count: int, authorization: Header | None
    ) -> bytes | Discarded:
        """Return the request as bytes, or an outcome that says why there can be none."""
        body, plain = message.body, self._plain
        if body is None:
            return Discarded(reason=message.problem)
        if plain and not message.propagated and message.record_target is None and not authorization:
            return plain.of(message, body, retry_count)
        try:
            target = (
                self._target if self._template is None else self._filled(self._template, message)
            )
        except (TemplateError, BodyError) as exc:
            return Discarded(reason=f"The endpoint's template cannot be filled: {exc}")
        sent: Described = message
        if self._shape is not None and not isinstance(message, MessageBatch):
            try:
                sent, body = self._shape(message)
            except UnreadableError as exc:
                return Discarded(reason=str(exc))
        start = self._start_of(target, sent)
        if authorization is not None:
            start += b"%b: %b\r\n" % authorization
        headers = self._headers.of(sent, retry_count, message.record_target)
        if self._signer is not None:
            # Add the signature last, because it covers exactly what is sent, and the time of
            # sending.
            headers += self._signer.headers(message.id, body, self._clock())
        return whole_request(start, headers, body)

    def _plain_requests(self) -> PlainRequests | None:
        """Return the builder of plain requests.

        None if the requests of this subscription are not plain, for example because they are
        signed.
        """
        if self._template or self._shape or self._signer or self._headers.is_typed:
            return None
        return PlainRequests(self._start, self._headers)

    def _filled(self, template: EndpointTemplate, message: Message) -> bytes:
        # Return only the path and the query of the filled URL template. The host was checked, and a
        # message must not change it.
        return template.target(self._bodies.of(message, Budget())).encode("ascii")

    def _start_of(self, target: bytes, message: Described) -> bytes:
        constant = self._headers.constant_beside(message)
        if target is self._target and constant is self._headers.constant:
            return self._start
        return request_start(b"POST", target, constant)


class UnusableDestination:
    """An endpoint without a usable URL. Every message is discarded."""

    __slots__ = ("_outcome",)

    def __init__(self, problem: str) -> None:
        self._outcome = Discarded(reason=f"Endpoint cannot be used: {problem}")

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Do nothing. Use `attempt`, which returns a discard with the reason."""

    async def attempt(
        self,
        message: Message,  # noqa: ARG002 - every message is discarded
        *,
        retry_count: int,  # noqa: ARG002 - every message is discarded
    ) -> Outcome:
        """Return a discard of `message`, with the reason."""
        return self._outcome


class NetworkAccess(NamedTuple):
    """The addresses that a transport may reach, its certificate authorities, and its proxy."""

    egress: EgressPolicy
    ca_file: Path | None
    proxy: EgressProxy | None


class Sender:
    """Owns the connections to all subscribers.

    Use it by `async with`, on the event loop that sends.
    """

    def __init__(
        self,
        *,
        egress: EgressPolicy,
        ca_file: Path | None = None,
        proxy: EgressProxy | None = None,
        limits: TransportLimits | None = None,
        clock: Clock = _utc_now,
        spans: SpanBuffer | None = None,
    ) -> None:
        self._spans = spans
        self._egress = egress
        self._proxy = proxy
        self._ca_file = ca_file
        self._limits = limits
        self._clock = clock
        self._bodies = ParsedBodies()
        self._warnings = _CertificateWarnings()
        self._transport: DeliveryTransport | None = None
        self._tokens: Tokens | None = None
        # For each subscription id and endpoint: which addresses of the endpoint have finished which
        # messages. This knowledge is kept when other settings of the subscription change.
        self._unfinished: WeakValueDictionary[tuple[str, str], UnfinishedAddresses] = (
            WeakValueDictionary()
        )

    async def __aenter__(self) -> Self:
        """Open the connections for sending."""
        self._transport = DeliveryTransport(
            egress=self._egress, ca_file=self._ca_file, proxy=self._proxy, limits=self._limits
        )
        self._tokens = await Tokens(self._transport).__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let requests in flight finish for a bounded time, then close every connection."""
        try:
            if self._tokens is not None:
                await self._tokens.__aexit__(exc_type, exc, traceback)
        finally:
            await self.transport.aclose()

    @property
    def transport(self) -> DeliveryTransport:
        """Return the transport, for example to count its connections."""
        if self._transport is None:
            message = "the sender has not been entered"
            raise RuntimeError(message)
        return self._transport

    @property
    def network_access(self) -> NetworkAccess:
        """Which addresses the transport may reach."""
        return NetworkAccess(self._egress, self._ca_file, self._proxy)

    def destination(
        self, subscription: Subscription, *, transport: DeliveryTransport | None = None
    ) -> (
        Destination
        | BroadcastDestination
        | SpannedDestination
        | AuthorizedDestination
        | UnusableDestination
    ):
        """Return the destination of the subscription's messages. A bad endpoint is no error.

        If `transport` is given, messages are sent with that transport. Token requests always use
        the sender's own transport.
        """
        found: Destination | BroadcastDestination | SpannedDestination
        try:
            found = Destination(
                subscription,
                transport=transport or self.transport,
                clock=self._clock,
                bodies=self._bodies,
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            return UnusableDestination(str(exc))
        if subscription.mode is EndpointMode.BROADCAST:
            found = BroadcastDestination(found, self._unfinished_of(subscription))
        if self._spans is not None:
            found = SpannedDestination(found, self._spans, subscription)
        self._warnings.check(subscription, self._clock())
        if subscription.oauth is None or self._tokens is None:
            return found
        policy = subscription.oauth
        provider = permitted(subscription.oauth_provider, policy, subscription)
        bearer = Bearer(self._tokens.source(provider, policy))
        token_timeout = min(subscription.policy.request_timeout, TOKEN_TIMEOUT_MAX)
        return AuthorizedDestination(found, bearer, token_timeout=token_timeout)

    def _unfinished_of(self, subscription: Subscription) -> UnfinishedAddresses:
        """Return which addresses of the subscription's endpoint have finished which messages.

        An earlier destination of the subscription may already have stored this, if it had the same
        endpoint.
        """
        key = subscription.id, subscription.endpoint
        return self._unfinished.setdefault(key, UnfinishedAddresses())
