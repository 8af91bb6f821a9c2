"""Health, forecasts and alerts in responses; health in Hermes' form."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.health.alerts import Alert
from app.domain.health.forecast import Loss
from app.domain.health.indicators import Problem
from app.services.health.subscription_health import RecordedHealth
from app.storage.health.subscription_health import Unhealthy

_CODES = Literal[
    "LAGGING", "UNREACHABLE", "TIMING_OUT", "MALFUNCTIONING", "RECEIVING_MALFORMED_MESSAGES"
]


class HealthProblemRead(Schema):
    """Something that is wrong with a subscription."""

    code: _CODES
    description: str


class HealthRead(Schema):
    """The health of a subscription, as in Hermes."""

    status: Literal["HEALTHY", "UNHEALTHY", "NO_DATA"]
    problems: tuple[HealthProblemRead, ...] = ()

    @classmethod
    def of(cls, look: RecordedHealth) -> "HealthRead":
        """Return the response for an evaluation of the health."""
        return cls(status=look.health.value, problems=_problems(look.problems))


class UnhealthyRead(Schema):
    """An unhealthy subscription, as in Hermes."""

    name: str
    topic_name: str
    severity: Literal["CRITICAL", "IMPORTANT", "NON_IMPORTANT"]
    problems: tuple[HealthProblemRead, ...]

    @classmethod
    def of(cls, found: Unhealthy) -> "UnhealthyRead":
        """Return the response for an unhealthy subscription."""
        return cls(
            name=found.name,
            topic_name=found.topic,
            severity=found.severity.value,
            problems=_problems(found.problems),
        )

    def line(self) -> str:
        """Return the response as a line of text."""
        return f"{self.name} - {'; '.join(problem.description for problem in self.problems)}"


class LossRead(Schema):
    """Messages that will be lost if nothing changes."""

    cause: Literal["RETENTION", "PUBLISH_TTL", "MESSAGE_TTL", "RETRY_BUFFER"] = Field(
        description=(
            "RETENTION: the log keeps them no longer. PUBLISH_TTL: they are too old for their"
            " first attempt. MESSAGE_TTL: they have been tried for too long. RETRY_BUFFER: so that"
            " they make room for others (exhaustedWaitMax)."
        )
    )
    at: str = Field(description="when the first one is lost, RFC 3339")
    messages: int = Field(description="how many of those that wait now")
    rate_needed: float | None = Field(
        default=None, description="messages per second that would lose no more; absent: none would"
    )


class ForecastRead(Schema):
    """The backlog of a subscription and its forecast; unknown values are left out."""

    topic_name: str
    subscription_name: str
    as_of: str | None = Field(default=None, description="when that was so, RFC 3339")
    lag: int | None = Field(default=None, description="messages that are not finished")
    lag_seconds: float | None = Field(
        default=None, description="age of the oldest message that waits"
    )
    arrival_rate: float | None = Field(
        default=None, description="messages published per second, in the last minute"
    )
    output_rate: float | None = Field(
        default=None, description="messages finished per second, in the last minute"
    )
    drain_seconds: float | None = Field(
        default=None, description="until nothing waits; absent: for ever, or not known yet"
    )
    losses: tuple[LossRead, ...] | None = Field(default=None, description="the first one first")

    @classmethod
    def of(cls, look: RecordedHealth) -> "ForecastRead":
        """Return the response for the forecast of an evaluation."""
        topic, name = look.subscription.topic, look.subscription.name
        subscription_health, at = look.subscription_health, look.at
        if subscription_health is None or at is None:
            return cls(topic_name=topic, subscription_name=name)
        return cls(
            topic_name=topic,
            subscription_name=name,
            as_of=at.isoformat(),
            lag=subscription_health.lag,
            lag_seconds=subscription_health.lag_time.total_seconds(),
            arrival_rate=round(subscription_health.arrival_rate, 3),
            output_rate=round(subscription_health.output_rate, 3),
            drain_seconds=None
            if subscription_health.drain is None
            else subscription_health.drain.total_seconds(),
            losses=tuple(_loss(loss) for loss in subscription_health.losses),
        )


class AlertRead(Schema):
    """An alert: what is or was wrong with a subscription, and since when."""

    id: str
    kind: Literal[
        "SUSPENDED",
        "CIRCUIT_OPEN",
        "HEARTBEAT",
        "RETRY_BUFFER_FULL",
        "UNDELIVERED",
        "LOSS_FORECAST",
        "LEDGER_MISSING",
        "CERTIFICATE_EXPIRY",
        "SECRET_EXPIRY",
    ]
    topic_name: str
    subscription_name: str
    description: str
    details: Mapping[str, Any] = Field(description="what it is about, by kind")
    raised_at: str = Field(description="RFC 3339")
    cleared_at: str | None = Field(default=None, description="RFC 3339; absent: it is so now")

    @classmethod
    def of(cls, alert: Alert) -> "AlertRead":
        """Return the response for an alert."""
        return cls(
            id=alert.id,
            kind=alert.kind.value,
            topic_name=alert.topic,
            subscription_name=alert.subscription,
            description=alert.description,
            details=dict(alert.details),
            raised_at=alert.raised_at.isoformat(),
            cleared_at=_when(alert.cleared_at),
        )


def _problems(found: Sequence[Problem]) -> tuple[HealthProblemRead, ...]:
    return tuple(
        HealthProblemRead(code=each.code.value, description=each.description) for each in found
    )


def _loss(loss: Loss) -> LossRead:
    return LossRead(
        cause=loss.cause.value,
        at=loss.at.isoformat(),
        messages=loss.messages,
        rate_needed=None if loss.rate is None else round(loss.rate, 3),
    )


def _when(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
