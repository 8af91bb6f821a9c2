"""A subscription: a topic, an endpoint that gets the topic's messages, and all settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from app.domain.catalogue.batching import (
    BATCH_SIZE_MAX,
    BATCH_TIME_MAX,
    BATCH_VOLUME_MAX,
    BatchFormat,
    Batching,
    DeliveryType,
)
from app.domain.catalogue.client_certificate import ClientCertificate
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.fetch import FetchPolicy
from app.domain.catalogue.filters import FILTERS_MAX, Filter
from app.domain.catalogue.headers import Header, require_headers
from app.domain.catalogue.monitoring import Monitoring, require_metadata
from app.domain.catalogue.oauth import POLICY_FIELD, OAuthPolicy, OAuthProvider
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.seek import Seek
from app.domain.catalogue.signing_secrets import SigningSecret, require_signing_secrets
from app.domain.catalogue.templates import is_template, template_problem
from app.domain.circuit import CircuitBreaker
from app.domain.errors import ValidationFailedError
from app.domain.names import subscription_name, topic_name
from app.domain.network.urls import UrlError, http_url
from app.domain.owner import Owner
from app.domain.trace import TrackingMode

RATE_MAX: Final = 1_000_000
IN_FLIGHT_MAX: Final = 10_000
PARKED_KEYS_MAX: Final = 100_000
RETRIES_MAX: Final = 1_000
PUBLISH_TTL_MAX: Final = timedelta(days=30)
# The statuses that the owner of a subscription may list as statuses to retry.
ERROR_CODES: Final = range(400, 600)


class OnExhausted(StrEnum):
    """What happens when a message must be retried and the retry buffer is full.

    WAIT: no new message is sent until the buffer has space. RUN: as WAIT, and retries are sent
    without their backoff. DISCARD: the message is discarded. DISCARD_OLDEST: the oldest message in
    the buffer is discarded. ABORT: the subscription is suspended.
    """

    WAIT = "WAIT"
    DISCARD = "DISCARD"
    DISCARD_OLDEST = "DISCARD_OLDEST"
    ABORT = "ABORT"
    RUN = "RUN"


class State(StrEnum):
    """The state of a subscription. PENDING: no worker has started the new subscription yet."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


class Ordering(StrEnum):
    """The order of deliveries: which messages wait for the end of an earlier message.

    KEY: messages with the same partition key wait for each other. PARTITION: all messages of one
    partition wait for each other. NONE: no message waits.
    """

    NONE = "NONE"
    KEY = "KEY"
    PARTITION = "PARTITION"


class EndpointMode(StrEnum):
    """Which addresses get each message if the name of the endpoint's host has several addresses.

    ANYCAST: one of the addresses. BROADCAST: each of the addresses.
    """

    ANYCAST = "ANYCAST"
    BROADCAST = "BROADCAST"


class ContentMode(StrEnum):
    """The form in which a message is sent.

    PLAIN: as it was published. CE_BINARY: as a CloudEvent whose attributes are in headers.
    CE_STRUCTURED: as a CloudEvent in JSON.
    """

    PLAIN = "PLAIN"
    CE_BINARY = "CE_BINARY"
    CE_STRUCTURED = "CE_STRUCTURED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """The rate, the retries and the time limits of deliveries.

    These are the settings of Hermes' subscriptionPolicy, with the same limits, and further
    settings.

    Attributes:
        max_retries: The maximum number of attempts after the first one; None: there is no maximum.
        first_retry_immediate: Whether the first retry is made without delay. All later retries have
            a backoff.
        publish_ttl: A message that is older than this at its first attempt is discarded.
        on_exhausted: What happens when a message must be retried and the retry buffer is full.
        exhausted_wait_max: While the retry buffer is full and other messages wait, a message is
            discarded when it was retried for this time.
        sending_delay: How long a message waits after its publication before it is sent. It waits in
            the retry buffer.
        batch_size: The maximum number of messages in a batch.
        batch_volume: The maximum size of a batch in bytes.
        batch_time: The longest time that a batch waits for more messages.
    """

    rate: int = 400
    message_ttl: timedelta = timedelta(seconds=3600)
    request_timeout: timedelta = timedelta(milliseconds=1000)
    message_backoff: timedelta = timedelta(milliseconds=100)
    backoff_multiplier: float = 1.0
    backoff_interval_max: timedelta = timedelta(seconds=600)
    retry_client_errors: bool = False
    in_flight_max: int = 100
    retry_buffer_max: int = 10_000
    parked_keys_max: int = 1_000
    # Whether the rate is below `rate` while the subscriber cannot keep up.
    adaptive_rate: bool = True
    # The longest time between two probes of a subscriber that is down.
    heartbeat_max: timedelta = timedelta(seconds=60)
    max_retries: int | None = None
    first_retry_immediate: bool = False
    publish_ttl: timedelta | None = None
    on_exhausted: OnExhausted = OnExhausted.WAIT
    exhausted_wait_max: timedelta | None = None
    sending_delay: timedelta = timedelta()
    batch_size: int = 100
    batch_volume: int = 64_000
    batch_time: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        for name, low, high, unit in _LIMITS:
            value = getattr(self, name)
            if value is None:
                continue
            measured = value / unit if isinstance(unit, timedelta) else value
            if not low <= measured <= high:
                raise ValidationFailedError.of(
                    f"subscriptionPolicy.{FIELD_NAMES[name]}", f"must be {low} to {high}"
                )
        if self.on_exhausted is OnExhausted.RUN and self.sending_delay:
            # RUN cannot be used together with a sending delay. Delayed messages wait in the retry
            # buffer, so the buffer could be full although no message has failed.
            raise ValidationFailedError.of(
                "subscriptionPolicy.sendingDelay", "must be 0 when onExhausted is RUN"
            )
        if self.publish_ttl is not None and self.publish_ttl <= self.sending_delay:
            # The sending delay must be shorter than `publishTtl`. Otherwise each message would be
            # too old when the delay ends, and no message would be sent.
            raise ValidationFailedError.of(
                "subscriptionPolicy.publishTtl", "must be longer than sendingDelay"
            )
        if self.exhausted_wait_max is not None and not self.waits_for_room:
            raise ValidationFailedError.of(
                "subscriptionPolicy.exhaustedWaitMax",
                "must be null unless onExhausted is WAIT or RUN",
            )

    @property
    def waits_for_room(self) -> bool:
        """Whether new messages wait while the retry buffer is full."""
        return self.on_exhausted in {OnExhausted.WAIT, OnExhausted.RUN}


# The name of each setting in the API and in errors. Most names are those of Hermes.
FIELD_NAMES: Final[Mapping[str, str]] = {
    "rate": "rate",
    "message_ttl": "messageTtl",
    "request_timeout": "requestTimeout",
    "message_backoff": "messageBackoff",
    "backoff_multiplier": "backoffMultiplier",
    "backoff_interval_max": "backoffMaxIntervalInSec",
    "retry_client_errors": "retryClientErrors",
    "in_flight_max": "inflightSize",
    "retry_buffer_max": "retryBufferSize",
    "parked_keys_max": "parkedKeysMax",
    "adaptive_rate": "adaptiveRate",
    "heartbeat_max": "heartbeatMax",
    "max_retries": "maxRetries",
    "first_retry_immediate": "firstRetryImmediate",
    "publish_ttl": "publishTtl",
    "on_exhausted": "onExhausted",
    "exhausted_wait_max": "exhaustedWaitMax",
    "sending_delay": "sendingDelay",
    "batch_size": "batchSize",
    "batch_volume": "batchVolume",
    "batch_time": "batchTime",
}

_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_LIMITS: Final = (
    ("rate", 1, RATE_MAX, 1),
    ("message_ttl", 0, 7200, _SECOND),
    ("request_timeout", 100, 300_000, _MILLISECOND),
    ("message_backoff", 0, 600_000, _MILLISECOND),
    ("backoff_multiplier", 1, 10, 1),
    ("backoff_interval_max", 1, 600, _SECOND),
    ("in_flight_max", 1, IN_FLIGHT_MAX, 1),
    ("retry_buffer_max", 1, 1_000_000, 1),
    ("parked_keys_max", 1, PARKED_KEYS_MAX, 1),
    ("heartbeat_max", 1, 3600, _SECOND),
    ("max_retries", 0, RETRIES_MAX, 1),
    ("sending_delay", 0, 5_000, _MILLISECOND),
    ("exhausted_wait_max", 1, 7200, _SECOND),
    ("publish_ttl", 1, PUBLISH_TTL_MAX // _SECOND, _SECOND),
    ("batch_size", 1, BATCH_SIZE_MAX, 1),
    ("batch_volume", 1, BATCH_VOLUME_MAX, 1),
    ("batch_time", 1, BATCH_TIME_MAX // _MILLISECOND, _MILLISECOND),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription with all its settings, for workers and the API.

    Attributes:
        id: The id of this incarnation. If a subscription is deleted and created again with the same
            name, the new subscription has another id. So the commits and undelivered messages of
            the old one are not used for the new one.
        mode: With BROADCAST, each message is sent to every address of the endpoint's host. It is
            delivered when each address has accepted it.
        retryable_codes: The 4xx statuses that are retried.
        suspend_on_gone: Whether a 410 response suspends the subscription.
        failure_expression: A CEL expression. If it is true for a response, the message is retried.
        state_reason: Why Angelia changed the state; empty if the owner changed it.
        headers: Headers that are sent with every message.
        signing_secrets: Each request is signed with all secrets that have not expired.
        identity_headers: Whether each request has headers with the names of the topic and the
            subscription.
        idempotency_key: Whether the message id is also sent as `Idempotency-Key`.
        filters: The subscription gets only the messages that pass all filters.
        fetch: When messages are taken from the log.
        delivery_type: With BATCH, messages are sent in batches. One batch of each partition is sent
            at a time, and `ordering` has no effect.
        content_type: With AVRO, messages of an AVRO topic are sent unchanged. With JSON, they are
            sent as JSON.
        circuit_breaker: After too many failures, one after another, it stops all requests for some
            time.
        dead_letter: The topic to which discarded messages are copied.
        client_certificate: The certificate that Angelia sends to endpoints that require one in TLS.
        http2: Whether HTTP/2 is offered to https endpoints.
        oauth: How to get the access token for the requests.
        oauth_provider: The provider that issues the token, if it is known here. Only code that
            sends requests needs it.
        tracking: Which deliveries are traced.
        monitoring: How important the subscription is to its owner. Deliveries do not depend on it.
        resolver_metadata: Metadata of Hermes' endpoints, which are stored and have no effect.
        auto_delete: Whether the subscription is deleted with its topic. Otherwise the topic cannot
            be deleted while the subscription exists.
        seek: The last move to another position, if there was any.
        dropped: The ids of the retransmissions that were cancelled last. Their messages that are
            still in the log are skipped.
        change: The number of the subscription's last change.
        start: For each partition at the creation of the subscription, the first offset that belongs
            to the subscription. A partition that is missing here was added later, and all its
            messages belong to the subscription.
        locked: Why this process cannot read the subscription's secrets; empty if it can read them.
            If it cannot, each secret is a MASK, and nothing may be sent or stored for the
            subscription.
    """

    id: str
    topic: str
    name: str
    # The URL of the subscriber. It may contain a password, so logs do not show it.
    endpoint: str = field(repr=False)
    mode: EndpointMode = EndpointMode.ANYCAST
    state: State = State.ACTIVE
    owner: Owner = field(default_factory=Owner)
    description: str = ""
    contact: str = ""
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    retryable_codes: frozenset[int] = frozenset()
    suspend_on_gone: bool = True
    failure_expression: str | None = None
    state_reason: str = ""
    headers: tuple[Header, ...] = ()
    signing_secrets: tuple[SigningSecret, ...] = ()
    identity_headers: bool = False
    idempotency_key: bool = True
    filters: tuple[Filter, ...] = ()
    ordering: Ordering = Ordering.NONE
    fetch: FetchPolicy = field(default_factory=FetchPolicy)
    delivery_type: DeliveryType = DeliveryType.SERIAL
    batch_format: BatchFormat = BatchFormat.WRAPPED
    content_mode: ContentMode = ContentMode.PLAIN
    content_type: ContentType = ContentType.JSON
    circuit_breaker: CircuitBreaker | None = None
    dead_letter: DeadLetter | None = None
    client_certificate: ClientCertificate | None = None
    http2: bool = False
    oauth: OAuthPolicy | None = None
    oauth_provider: OAuthProvider | None = None
    tracking: TrackingMode = TrackingMode.OFF
    monitoring: Monitoring = field(default_factory=Monitoring)
    resolver_metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    auto_delete: bool = False
    seek: Seek | None = None
    dropped: tuple[str, ...] = ()
    created_at: datetime | None = None
    modified_at: datetime | None = None
    change: int = 0
    start: Mapping[int, int] = field(default_factory=dict, hash=False)
    locked: str = ""

    def __post_init__(self) -> None:
        topic_name(self.topic, path="topicName")
        subscription_name(self.name)
        endpoint_url(self.endpoint)
        require_headers(self.headers, path="headers")
        require_signing_secrets(self.signing_secrets)
        require_metadata(self.resolver_metadata, path="endpointAddressResolverMetadata")
        self._check_codes()
        self._check_content()
        if self.oauth is not None:
            self._check_authorization()
        if self.delivery_type is DeliveryType.BATCH:
            self._check_batches()
        if self.client_certificate is not None and not is_https(self.endpoint):
            raise ValidationFailedError.of("clientCertificate", "needs an https:// endpoint")
        if self.dead_letter is not None and self.dead_letter.topic == self.topic:
            # A subscription's own topic cannot be its dead-letter topic. Otherwise all
            # subscriptions of the topic would get the messages that one of them has discarded.
            raise ValidationFailedError.of("deadLetter.topic", "must be another topic than its own")
        if len(self.filters) > FILTERS_MAX:
            raise ValidationFailedError.of("filters", f"must be at most {FILTERS_MAX}")

    def _check_codes(self) -> None:
        if not all(code in ERROR_CODES for code in self.retryable_codes):
            raise ValidationFailedError.of("retryableStatusCodes", "must be 400 to 599 each")
        if self.suspend_on_gone and HTTPStatus.GONE in self.retryable_codes:
            raise ValidationFailedError.of(
                "retryableStatusCodes", "must be without 410 unless suspendOnGone is false"
            )

    def _check_batches(self) -> None:
        if self.mode is EndpointMode.BROADCAST:
            raise ValidationFailedError.of("mode", "must be ANYCAST when deliveryType is BATCH")
        if is_template(self.endpoint):
            # An endpoint with placeholders cannot get batches, because each message of a batch
            # could need another URL.
            raise ValidationFailedError.of(
                "endpoint", "must be without {placeholders} when deliveryType is BATCH"
            )
        publish_ttl = self.policy.publish_ttl
        if publish_ttl is not None and publish_ttl <= self.policy.batch_time:
            # The batch time must be shorter than `publishTtl`. Otherwise the first message of an
            # incomplete batch would always be too old when the batch is sent.
            raise ValidationFailedError.of(
                "subscriptionPolicy.publishTtl",
                "must be longer than batchTime when deliveryType is BATCH",
            )

    def _check_content(self) -> None:
        if self.content_type is ContentType.AVRO:
            self._check_avro()
        if self.content_mode is ContentMode.PLAIN:
            return
        if any(header.name.lower() == "content-type" for header in self.headers):
            # The owner cannot set the header Content-Type for CloudEvents. In a CloudEvent, this
            # header says that it is an event, or what type its data have.
            raise ValidationFailedError.of(
                "headers", "must be without Content-Type unless contentMode is PLAIN"
            )
        binary = self.content_mode is ContentMode.CE_BINARY
        if binary and self.delivery_type is DeliveryType.BATCH:
            raise ValidationFailedError.of(
                "contentMode", "must be PLAIN or CE_STRUCTURED when deliveryType is BATCH"
            )

    def _check_avro(self) -> None:
        if self.delivery_type is DeliveryType.BATCH:
            raise ValidationFailedError.of(
                "contentType", "must be JSON: AVRO is not supported in BATCH delivery mode"
            )
        if self.content_mode is not ContentMode.PLAIN:
            raise ValidationFailedError.of(
                "contentType", "must be JSON unless contentMode is PLAIN"
            )

    def _check_authorization(self) -> None:
        # With OAuth, the URL cannot have a user and a password. Both would need the header
        # Authorization, and a request can have only one such header.
        if urlsplit(self.endpoint).username is not None:
            raise ValidationFailedError.of(
                POLICY_FIELD, "must be absent while there are a user and a password in endpoint"
            )
        if any(header.name.lower() == "authorization" for header in self.headers):
            raise ValidationFailedError.of(
                POLICY_FIELD, "must be absent while Authorization is one of the headers"
            )

    def in_state(self, state: State, *, reason: str = "") -> "Subscription":
        """Return this subscription in `state`. `reason` says why Angelia changes the state."""
        if state is self.state:
            return self
        return replace(self, state=state, state_reason=reason)

    @property
    def rests(self) -> bool:
        """Whether nothing may be sent.

        This is so if the subscription is suspended, or if this process cannot read its secrets.
        """
        return self.state is State.SUSPENDED or bool(self.locked)

    @property
    def batching(self) -> Batching | None:
        """When batches are sent, and in which format; None if each request has one message."""
        if self.delivery_type is DeliveryType.SERIAL:
            return None
        return Batching(
            size=self.policy.batch_size,
            volume=self.policy.batch_volume,
            time=self.policy.batch_time,
            format=self.batch_format,
            events=self.content_mode is ContentMode.CE_STRUCTURED,
        )

    @property
    def group(self) -> str:
        """The consumer group of the subscription's commits: `{topic}_{subscription}`."""
        return f"{self.topic}_{self.name}"


def is_https(endpoint: str) -> bool:
    """Whether the endpoint uses TLS."""
    return endpoint[:6].lower() == "https:"


def endpoint_url(text: str) -> str:
    """Return `text` if it is a URL to which messages can be sent. It may have placeholders.

    Raises:
        ValidationFailedError: Messages cannot be sent to the URL (field `endpoint`).
    """
    try:
        problem = template_problem(http_url(text))
    except UrlError as error:
        raise ValidationFailedError.of("endpoint", str(error)) from None
    if problem:
        raise ValidationFailedError.of("endpoint", problem)
    return text
