"""A subscription: an endpoint that gets every message of a topic, and how it wants them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from app.domain.errors import ValidationFailedError
from app.domain.names import subscription_name, topic_name
from app.domain.owner import Owner

RATE_MAX: Final = 1_000_000
IN_FLIGHT_MAX: Final = 10_000


class State(StrEnum):
    """What a subscription does now. PENDING: created, not yet taken up by a worker."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """How fast, how often and how long delivery is tried.

    This is Hermes' subscriptionPolicy, with its limits.
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

    def __post_init__(self) -> None:
        for name, low, high, unit in _LIMITS:
            value = getattr(self, name)
            measured = value / unit if isinstance(unit, timedelta) else value
            if not low <= measured <= high:
                raise ValidationFailedError.of(
                    f"subscriptionPolicy.{FIELD_NAMES[name]}", f"must be {low} to {high}"
                )


# The public (Hermes) name of each setting, for messages and for the API.
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription as workers and API see it.

    `id` names this incarnation: a subscription deleted and created again under its old name has
    another one, so that nothing of the old one (commits, counters, undelivered messages) is taken
    for the new one's. `change` is the number of the change that last touched it. `start` is the
    first offset of each partition that belongs to it: the end of the topic when it was created. A
    partition that is not in it was added later and belongs to it from its beginning.
    """

    id: str
    topic: str
    name: str
    endpoint: str
    state: State = State.ACTIVE
    owner: Owner = field(default_factory=Owner)
    description: str = ""
    contact: str = ""
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    created_at: datetime | None = None
    modified_at: datetime | None = None
    change: int = 0
    start: Mapping[int, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        topic_name(self.topic, path="topicName")
        subscription_name(self.name)
        endpoint_url(self.endpoint)

    @property
    def group(self) -> str:
        """The consumer group its offsets are committed under: `{topic}_{subscription}`."""
        return f"{self.topic}_{self.name}"


def endpoint_url(text: str) -> str:
    """`text`, if a message can be POSTed to it.

    Raises:
        ValidationFailedError: it cannot; the field is `endpoint`.
    """
    problem = _endpoint_problem(text)
    if problem:
        raise ValidationFailedError.of("endpoint", problem)
    return text


def _endpoint_problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as exc:
        return f"is not a URI: {exc}"
    if parts.scheme not in {"http", "https"}:
        return "must be an http:// or https:// URI"
    if not parts.hostname or not text.isascii() or not text.isprintable() or " " in text:
        return "must be a URI with a host, in printable ASCII: http://host/path"
    return None
