"""What the service answers, as values: topics, subscriptions, their figures.

Times are aware datetimes, in UTC unless the service says otherwise; sizes are in bytes, rates per
second. `raw` of each value has all that was answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from angelia_client.reading import Answered, Instant, InstantSeconds, Said, TopicName

State = Literal["PENDING", "ACTIVE", "SUSPENDED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Answered):
    """Whether messages can be taken and subscriptions changed, and which part is in the way."""

    SCHEMA: ClassVar[str] = "ReadinessRead"

    status: str
    parts: Mapping[str, bool]

    @property
    def ready(self) -> bool:
        """Whether all parts are as they must be."""
        return self.status == "READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(Answered):
    """Who a topic or subscription belongs to."""

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
    policy: Annotated[Mapping[str, Any], Said(name="subscriptionPolicy")]
    created_at: InstantSeconds | None
    modified_at: InstantSeconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History(Answered):
    """What a new subscription gets of the time before its topic's log; the log has the rest.

    The `retransmission` of that id sends what is archived; None: nothing is. `waiting_for` says why
    it does not begin. `gone` counts offsets that may be of that time, and are nowhere any more.
    """

    SCHEMA: ClassVar[str] = "HistoryRead"

    retransmission: str | None
    waiting_for: str | None
    gone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSubscription(Subscription):
    """A new subscription; `history` where it begins before its topic's log does."""

    SCHEMA: ClassVar[str] = "CreatedSubscriptionRead"

    history: History | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics(Answered):
    """What is known of a topic's traffic.

    `rate`: messages published per second; None where it was not asked for by the topic alone.
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
    """Counts of a subscription's life, what is open now, and rates.

    `lag`: messages that are not finished yet. `mode` (NORMAL, SLOW, HEARTBEAT) and `output_rate`
    tell how fast it may go, and `circuit` (CLOSED, OPEN, HALF_OPEN) whether it may; they are None
    where nothing is sent. The last three, in seconds and messages, are None where nobody has looked
    at its health lately, and `drain_seconds` also where all that waits will take for ever.
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
    codes_2xx: Annotated[float, Said(name="codes2xx")]
    codes_4xx: Annotated[float, Said(name="codes4xx")]
    codes_5xx: Annotated[float, Said(name="codes5xx")]
    retries: float
    output_rate: float | None
    mode: str | None
    mode_reason: str | None
    mode_since: InstantSeconds | None
    circuit: str | None
    circuit_reason: str | None
    circuit_since: InstantSeconds | None
    oldest_unfinished_age: float | None
    drain_seconds: float | None
    expiring: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicMetrics(TopicMetrics):
    """What is known of a topic's traffic, with its name."""

    SCHEMA: ClassVar[str] = "NamedTopicMetricsRead"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSubscriptionMetrics(SubscriptionMetrics):
    """Figures of a subscription, with its names; its lag is as workers saw the log last."""

    SCHEMA: ClassVar[str] = "NamedSubscriptionMetricsRead"

    name: str
    topic: TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """A version of a topic's schema; `text` is as it was given."""

    text: str
    version: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion(Answered):
    """A version of a topic's schema, and whether messages are held against it."""

    SCHEMA: ClassVar[str] = "SchemaVersionRead"

    version: int
    id: int
    in_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProblem(Answered):
    """An indicator of Hermes that is on."""

    SCHEMA: ClassVar[str] = "HealthProblemRead"

    code: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Answered):
    """How a subscription does: HEALTHY, UNHEALTHY or NO_DATA, and why."""

    SCHEMA: ClassVar[str] = "HealthRead"

    status: str
    problems: tuple[HealthProblem, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Answered):
    """What a subscription has before it; what is not known is None. `raw` has the losses."""

    SCHEMA: ClassVar[str] = "ForecastRead"

    topic: TopicName
    subscription: Annotated[str, Said(name="subscriptionName")]
    as_of: Instant | None
    lag: int | None
    lag_seconds: float | None
    arrival_rate: float | None
    output_rate: float | None
    drain_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Answered):
    """What is or was wrong with a subscription, and since when."""

    SCHEMA: ClassVar[str] = "AlertRead"

    id: str
    kind: str
    topic: TopicName
    subscription: Annotated[str, Said(name="subscriptionName")]
    description: str
    details: Mapping[str, Any]
    raised_at: Instant
    cleared_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong(Answered):
    """How an endpoint has answered a ping; `status` is None when it has not."""

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
    """What deliveries are signed with; `secret` is masked but in the answer that made it."""

    SCHEMA: ClassVar[str] = "SigningSecretRead"

    id: str
    type: str
    secret: str | None
    public_key: str | None
    created_at: Instant
    expires_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Answered):
    """An API key; it is in the answer that made it and nowhere else."""

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
    """A key that was made just now: `key` is shown this once."""

    SCHEMA: ClassVar[str] = "MadeKeyRead"

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent(Answered):
    """A change, by whom, and what it was about."""

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
