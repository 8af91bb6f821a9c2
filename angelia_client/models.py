"""Responses as values: topics, subscriptions, and their metrics.

Times have a time zone, which is UTC unless the service says otherwise. Sizes are in bytes, and
rates per second. `raw` of each value is the whole response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from angelia_client.reading import Answered, FromJson, Instant, InstantSeconds, TopicName

State = Literal["PENDING", "ACTIVE", "SUSPENDED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Answered):
    """Whether messages and changes are accepted, and which part is not ready."""

    SCHEMA: ClassVar[str] = "ReadinessRead"

    status: str
    parts: Mapping[str, bool]

    @property
    def ready(self) -> bool:
        """Whether all parts are ready."""
        return self.status == "READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(Answered):
    """The owner of a topic or subscription."""

    SCHEMA: ClassVar[str] = "OwnerBody"

    source: str | None
    id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(Answered):
    """A topic; `raw` has all its settings."""

    SCHEMA: ClassVar[str] = "TopicRead"

    name: str
    description: str | None
    owner: Owner | None
    content_type: str | None
    partitions: int | None
    created_at: InstantSeconds | None
    modified_at: InstantSeconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Answered):
    """A subscription; `raw` has all its settings."""

    SCHEMA: ClassVar[str] = "SubscriptionRead"

    name: str
    topic: TopicName
    endpoint: str
    description: str
    owner: Owner
    state: State
    state_reason: str | None
    policy: Annotated[Mapping[str, Any], FromJson(name="subscriptionPolicy")]
    created_at: InstantSeconds | None
    modified_at: InstantSeconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History(Answered):
    """Messages that a new subscription requested, and that the log no longer has.

    Attributes:
        retransmission: The id of the retransmission that sends the archived messages; None if no
            message is archived.
        waiting_for: Why the retransmission has not started yet; None if it has started.
        gone: How many offsets are neither in the log nor in the archive. The requested time may
            include messages at these offsets.
    """

    SCHEMA: ClassVar[str] = "HistoryRead"

    retransmission: str | None
    waiting_for: str | None
    gone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSubscription(Subscription):
    """A new subscription.

    It has a `history` if its start position is before the start of the topic's log.
    """

    SCHEMA: ClassVar[str] = "CreatedSubscriptionRead"

    history: History | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics(Answered):
    """The metrics of a topic.

    `rate` is how many messages are published per second; None if metrics of several topics were
    requested.
    """

    SCHEMA: ClassVar[str] = "TopicMetricsRead"

    published: int | None
    volume: int
    rate: float | None
    delivery_rate: float
    throughput: float
    subscriptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionMetrics(Answered):
    """Counts since a subscription's creation, and rates per second of the last minute.

    Attributes:
        volume: The size of the delivered bodies.
        inflight: The number of requests in flight.
        lag: The number of unfinished messages.
        rate: Requests per second.
        output_rate: The allowed requests per second; None if no worker reports this rate.
        mode: NORMAL if the subscriber is well, SLOW if it is recovering, HEARTBEAT if it is down.
        mode_reason: Why the rate has this mode.
        mode_since: When the mode began.
        circuit: The state of the circuit: CLOSED, OPEN or HALF_OPEN; None without a circuit.
        circuit_reason: Why the circuit is not closed.
        circuit_since: When the state of the circuit began.
        next_probe_at: When the next message may be tried, if the subscriber is down or the circuit
            is not closed. None otherwise, and if no message waits.
        oldest_unfinished_age: The age of the oldest unfinished message in seconds. This and the
            next two attributes are None if the health was not evaluated recently.
        drain_seconds: The time until no message waits; also None if messages will always wait.
        expiring: How many messages will be lost before they are delivered.
    """

    SCHEMA: ClassVar[str] = "SubscriptionMetricsRead"

    delivered: int
    discarded: int
    filtered: int
    volume: int
    inflight: int
    lag: int
    rate: float
    throughput: float
    timeouts: float
    other_errors: float
    codes_2xx: Annotated[float, FromJson(name="codes2xx")]
    codes_4xx: Annotated[float, FromJson(name="codes4xx")]
    codes_5xx: Annotated[float, FromJson(name="codes5xx")]
    retries: float
    output_rate: float | None
    mode: str | None
    mode_reason: str | None
    mode_since: InstantSeconds | None
    circuit: str | None
    circuit_reason: str | None
    circuit_since: InstantSeconds | None
    next_probe_at: InstantSeconds | None
    oldest_unfinished_age: float | None
    drain_seconds: float | None
    expiring: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicMetrics(TopicMetrics):
    """The metrics of a topic, with its name."""

    SCHEMA: ClassVar[str] = "NamedTopicMetricsRead"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSubscriptionMetrics(SubscriptionMetrics):
    """The metrics of a subscription, with the names of topic and subscription.

    The lag is from the workers' last report.
    """

    SCHEMA: ClassVar[str] = "NamedSubscriptionMetricsRead"

    name: str
    topic: TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """A version of a topic's schema. `text` is exactly the text that was set."""

    text: str
    version: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion(Answered):
    """A version of a topic's schema, and whether it validates messages."""

    SCHEMA: ClassVar[str] = "SchemaVersionRead"

    version: int
    id: int
    in_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProblem(Answered):
    """An indicator of Hermes that says that the subscription is unhealthy."""

    SCHEMA: ClassVar[str] = "HealthProblemRead"

    code: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Answered):
    """The health of a subscription: HEALTHY, UNHEALTHY or NO_DATA, and why."""

    SCHEMA: ClassVar[str] = "HealthRead"

    status: str
    problems: tuple[HealthProblem, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Answered):
    """The backlog of a subscription, and when it will be delivered. Unknown values are None.

    `raw` has the expected losses.
    """

    SCHEMA: ClassVar[str] = "ForecastRead"

    topic: TopicName
    subscription: Annotated[str, FromJson(name="subscriptionName")]
    as_of: Instant | None
    lag: int | None
    lag_seconds: float | None
    arrival_rate: float | None
    output_rate: float | None
    drain_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Answered):
    """What is wrong with a subscription since `raised_at`, or was wrong until `cleared_at`."""

    SCHEMA: ClassVar[str] = "AlertRead"

    id: str
    kind: str
    topic: TopicName
    subscription: Annotated[str, FromJson(name="subscriptionName")]
    description: str
    details: Mapping[str, Any]
    raised_at: Instant
    cleared_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong(Answered):
    """The response of an endpoint to a ping. `status` is None if there was no response."""

    SCHEMA: ClassVar[str] = "PingRead"

    delivered: bool
    status: int | None
    reason: str | None
    latency_ms: float
    address: str | None
    protocol: str | None
    message_id: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret(Answered):
    """A signing secret. `secret` is masked, except in the response to its creation."""

    SCHEMA: ClassVar[str] = "SigningSecretRead"

    id: str
    type: str
    secret: str | None
    public_key: str | None
    created_at: Instant
    expires_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Answered):
    """An API key, without its token."""

    SCHEMA: ClassVar[str] = "KeyRead"

    id: str
    name: str
    scopes: tuple[str, ...]
    created_by: str
    created_at: Instant | None
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new API key. Only this response has the `key`."""

    SCHEMA: ClassVar[str] = "MadeKeyRead"

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent(Answered):
    """A change: who made it, and which object was changed."""

    SCHEMA: ClassVar[str] = "AuditEventRead"

    id: int
    at: Instant
    actor: str
    key_id: str | None
    action: str
    kind: str
    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
