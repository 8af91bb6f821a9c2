"""`subscriptionPolicy`, with Hermes' names and units."""

from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import Field

from app.api.bodies.base import Schema, Unsupported, only
from app.domain.catalogue.batching import BATCH_SIZE_MAX, BATCH_TIME_MAX, BATCH_VOLUME_MAX
from app.domain.catalogue.subscription import (
    IN_FLIGHT_MAX,
    PARKED_KEYS_MAX,
    PUBLISH_TTL_MAX,
    RATE_MAX,
    RETRIES_MAX,
    DeliveryPolicy,
    OnExhausted,
)

# The rate of subscriptions that are created with a body in the form of the old documents
# (`supportTeam`).
OLD_DEFAULT_RATE: Final = 100
# Hermes' defaults for new subscriptions with batches, where they differ. A hundred messages need
# more time than one. The time to live is that of Hermes' source; its documents say 3600.
BATCH_DEFAULTS: Final = {"requestTimeout": 30_000, "messageBackoff": 500, "messageTtl": 60}

# The maximum number of policies whose responses are cached. Most subscriptions have one of a few
# different policies.
_POLICIES_MAX: Final = 1_000

_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)

READ_ONLY: Final = frozenset({"backoffMaxIntervalMillis"})
UNSUPPORTED: Final = {
    "socketTimeout": Unsupported(harmless=only(0)),
}


class PolicyBody(Schema):
    """The rate, retries and time limits of deliveries."""

    rate: int = Field(default=400, ge=1, le=RATE_MAX, description="requests per second, at most")
    message_ttl: int = Field(default=3600, ge=0, le=7200, description="seconds")
    request_timeout: int = Field(
        default=1000, ge=100, le=300_000, description="ms, for a whole attempt"
    )
    message_backoff: int = Field(
        default=100, ge=0, le=600_000, description="ms before the first retry"
    )
    backoff_multiplier: float = Field(default=1.0, ge=1, le=10)
    backoff_max_interval_in_sec: int = Field(default=600, ge=1, le=600)
    retry_client_errors: bool = Field(default=False, description="retry on 4xx, too")
    inflight_size: int = Field(default=100, ge=1, le=IN_FLIGHT_MAX)
    retry_buffer_size: int = Field(default=10_000, ge=1, le=1_000_000)
    parked_keys_max: int = Field(
        default=1_000,
        ge=1,
        le=PARKED_KEYS_MAX,
        description="with more failing keys in a partition (ordering KEY), it is not read on",
    )
    adaptive_rate: bool = Field(
        default=True, description="send less than `rate` while the subscriber fails"
    )
    heartbeat_max: int = Field(
        default=60, ge=1, le=3600, description="most seconds between probes of a dead subscriber"
    )
    max_retries: int | None = Field(
        default=None, ge=0, le=RETRIES_MAX, description="attempts after the first, at most"
    )
    first_retry_immediate: bool = Field(
        default=False, description="retry once without delay before backing off"
    )
    publish_ttl: int | None = Field(
        default=None,
        ge=1,
        le=PUBLISH_TTL_MAX // _SECOND,
        description="seconds since its publication, after which a message gets no first attempt",
    )
    on_exhausted: Literal["WAIT", "DISCARD", "DISCARD_OLDEST", "ABORT", "RUN"] = Field(
        default="WAIT", description="what happens when the retry buffer is full"
    )
    exhausted_wait_max: int | None = Field(
        default=None,
        ge=1,
        le=7200,
        description=(
            "with WAIT or RUN: while the retry buffer is full and others wait, a message that was"
            " tried for so many seconds is discarded"
        ),
    )
    sending_delay: int = Field(
        default=0, ge=0, le=5_000, description="ms from publication until a message may be sent"
    )
    batch_size: int = Field(
        default=100, ge=1, le=BATCH_SIZE_MAX, description="messages in a batch, at most"
    )
    batch_volume: int = Field(
        default=64_000,
        ge=1,
        le=BATCH_VOLUME_MAX,
        description="bytes of a batch's body, at most; a message that does not fit is discarded",
    )
    batch_time: int = Field(
        default=30_000,
        ge=1,
        le=BATCH_TIME_MAX // _MILLISECOND,
        description="ms since its first message after which a batch is sent in any case",
    )

    def to_domain(self) -> DeliveryPolicy:
        """Return the policy."""
        return DeliveryPolicy(
            rate=self.rate,
            message_ttl=self.message_ttl * _SECOND,
            request_timeout=self.request_timeout * _MILLISECOND,
            message_backoff=self.message_backoff * _MILLISECOND,
            backoff_multiplier=self.backoff_multiplier,
            backoff_interval_max=self.backoff_max_interval_in_sec * _SECOND,
            retry_client_errors=self.retry_client_errors,
            in_flight_max=self.inflight_size,
            retry_buffer_max=self.retry_buffer_size,
            parked_keys_max=self.parked_keys_max,
            adaptive_rate=self.adaptive_rate,
            heartbeat_max=self.heartbeat_max * _SECOND,
            max_retries=self.max_retries,
            first_retry_immediate=self.first_retry_immediate,
            publish_ttl=_seconds(self.publish_ttl),
            on_exhausted=OnExhausted(self.on_exhausted),
            exhausted_wait_max=_seconds(self.exhausted_wait_max),
            sending_delay=self.sending_delay * _MILLISECOND,
            batch_size=self.batch_size,
            batch_volume=self.batch_volume,
            batch_time=self.batch_time * _MILLISECOND,
        )

    @classmethod
    def of(cls, policy: DeliveryPolicy) -> "PolicyBody":
        """Return the body that describes `policy`."""
        return cls(**_values(policy))


class PolicyRead(PolicyBody):
    """The policy in responses. Some fields are computed, or always shown, as in Hermes."""

    backoff_max_interval_millis: int
    socket_timeout: int = 0

    @classmethod
    @lru_cache(maxsize=_POLICIES_MAX)
    def of(cls, policy: DeliveryPolicy) -> "PolicyRead":
        """Return the response for `policy`."""
        millis = policy.backoff_interval_max // _MILLISECOND
        return cls(**_values(policy), backoff_max_interval_millis=millis)


def _seconds(number: int | None) -> timedelta | None:
    return None if number is None else number * _SECOND


def _in_seconds(span: timedelta | None) -> int | None:
    return None if span is None else span // _SECOND


def _values(policy: DeliveryPolicy) -> dict[str, Any]:
    return {
        "rate": policy.rate,
        "message_ttl": policy.message_ttl // _SECOND,
        "request_timeout": policy.request_timeout // _MILLISECOND,
        "message_backoff": policy.message_backoff // _MILLISECOND,
        "backoff_multiplier": policy.backoff_multiplier,
        "backoff_max_interval_in_sec": policy.backoff_interval_max // _SECOND,
        "retry_client_errors": policy.retry_client_errors,
        "inflight_size": policy.in_flight_max,
        "retry_buffer_size": policy.retry_buffer_max,
        "parked_keys_max": policy.parked_keys_max,
        "adaptive_rate": policy.adaptive_rate,
        "heartbeat_max": policy.heartbeat_max // _SECOND,
        "max_retries": policy.max_retries,
        "first_retry_immediate": policy.first_retry_immediate,
        "publish_ttl": _in_seconds(policy.publish_ttl),
        "on_exhausted": policy.on_exhausted.value,
        "exhausted_wait_max": _in_seconds(policy.exhausted_wait_max),
        "sending_delay": policy.sending_delay // _MILLISECOND,
        "batch_size": policy.batch_size,
        "batch_volume": policy.batch_volume,
        "batch_time": policy.batch_time // _MILLISECOND,
    }
