"""Alerts: problems that people should know of before messages are lost (pure)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.domain.catalogue.signing_secrets import signing_at
from app.domain.catalogue.subscription import State, Subscription
from app.domain.circuit import CircuitReading, CircuitState
from app.domain.health.full_retry_buffers import fullness
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.insight.ledger_missing import Shortfall
from app.domain.status import Output, RateMode, SubscriptionLoad


class AlertKind(StrEnum):
    """The kind of an alert.

    SUSPENDED: Angelia suspended the subscription, because its endpoint answered 410, or because its
    retry buffer was full. CIRCUIT_OPEN: nothing is sent. HEARTBEAT: only probes are sent.
    RETRY_BUFFER_FULL: nothing new is sent until the retry buffer has space. UNDELIVERED: many
    messages are discarded. LOSS_FORECAST: messages will be lost. LEDGER_MISSING: messages are
    missing in the last ledger entry. CERTIFICATE_EXPIRY: the client certificate expires soon.
    SECRET_EXPIRY: the last signing secret expires soon.
    """

    SUSPENDED = "SUSPENDED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    HEARTBEAT = "HEARTBEAT"
    RETRY_BUFFER_FULL = "RETRY_BUFFER_FULL"
    UNDELIVERED = "UNDELIVERED"
    LOSS_FORECAST = "LOSS_FORECAST"
    LEDGER_MISSING = "LEDGER_MISSING"
    CERTIFICATE_EXPIRY = "CERTIFICATE_EXPIRY"
    SECRET_EXPIRY = "SECRET_EXPIRY"  # noqa: S105 - the name of a kind


class Limits(NamedTuple):
    """The limits at which alerts are raised.

    Attributes:
        loss: An alert is raised if the first message will be lost within this time.
        undelivered: An alert is raised if at least this fraction (0 to 1) of the messages of the
            last minute was discarded.
        expiry: An alert is raised if a certificate or secret expires within this time.
    """

    loss: timedelta = timedelta(hours=6)
    undelivered: float = 0.05
    expiry: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A problem that a subscription has now.

    If `is_nearly_over` is true, the problem is too small to raise a new alert. But an alert that
    exists is not cleared yet.
    """

    kind: AlertKind
    description: str
    details: Mapping[str, Any] = field(default_factory=dict)
    is_nearly_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert about a problem of a subscription. It is active while `cleared_at` is None.

    `description` and `details` are from the time when the alert was raised.
    """

    id: str
    kind: AlertKind
    subscription_id: str
    topic: str
    subscription: str
    description: str
    details: Mapping[str, Any]
    raised_at: datetime
    cleared_at: datetime | None = None


# If fewer messages than this were discarded, no alert about discards is raised. A fraction of so
# few messages says nothing.
DISCARDED_MIN: Final = 10
# An alert about discards is cleared when the fraction of discarded messages is lower than the limit
# multiplied by this number.
_SHARE_OVER: Final = 0.5
# An alert about a future loss is cleared when the time until the loss is longer than the limit
# multiplied by this number.
_SPAN_OVER: Final = 1.5
# An alert about a full retry buffer is cleared when less than this fraction of the buffer is in
# use.
_FULL_OVER: Final = 0.9
# How long a problem must last before its alert is raised, for some kinds of alerts. Alerts of all
# other kinds are raised at once.
_RAISED_AFTER: Final[Mapping[AlertKind, timedelta]] = {
    AlertKind.HEARTBEAT: timedelta(seconds=10),
    AlertKind.RETRY_BUFFER_FULL: timedelta(seconds=10),
}
# How long a problem must be over before its alert is cleared, for some kinds of alerts. Alerts of
# all other kinds are cleared at once.
_CLEARED_AFTER: Final[Mapping[AlertKind, timedelta]] = {
    AlertKind.CIRCUIT_OPEN: timedelta(seconds=60),
    AlertKind.HEARTBEAT: timedelta(seconds=60),
    AlertKind.RETRY_BUFFER_FULL: timedelta(seconds=60),
    AlertKind.UNDELIVERED: timedelta(seconds=120),
    AlertKind.LOSS_FORECAST: timedelta(seconds=60),
}
_NO_TIME: Final = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A subscription, its health, and the reports of workers about it."""

    subscription: Subscription
    subscription_health: SubscriptionHealth
    loads: Sequence[SubscriptionLoad] = ()
    # The messages that are missing in the last ledger entry; None if none is missing.
    short: Shortfall | None = None

    @property
    def outputs(self) -> Iterator[Output]:
        """The limits of sending that each worker has for the subscription now."""
        return (load.output for load in self.loads)


def readings(case: Case, limits: Limits, now: datetime) -> Iterator[Reading]:
    """Yield all problems that the subscription has at the time `now`."""
    if case.subscription.state is State.SUSPENDED:
        yield from _suspended(case)
    else:
        yield from _circuit(case)
        yield from _heartbeat(case)
        yield from _retry_buffer(case)
    yield from _undelivered(case, limits)
    yield from _loss(case, limits, now)
    yield from _missing(case)
    yield from _certificate(case, limits, now)
    yield from _secrets(case, limits, now)


def _suspended(case: Case) -> Iterator[Reading]:
    if reason := case.subscription.state_reason:
        yield Reading(
            kind=AlertKind.SUSPENDED,
            description=f"Suspended: {reason}",
            details={"reason": reason},
        )


def _circuit(case: Case) -> Iterator[Reading]:
    circuits = (output.circuit for output in case.outputs)
    worst = _least_open([each for each in circuits if each is not None])
    if worst is not None and worst.state is not CircuitState.CLOSED:
        yield Reading(
            kind=AlertKind.CIRCUIT_OPEN,
            description=f"The circuit is open: {worst.reason}",
            details={"reason": worst.reason},
            is_nearly_over=worst.state is CircuitState.HALF_OPEN,
        )


def _least_open(circuits: Sequence[CircuitReading]) -> CircuitReading | None:
    order = (CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED)
    return min(circuits, key=lambda each: order.index(each.state), default=None)


def _heartbeat(case: Case) -> Iterator[Reading]:
    modes = {output.mode: output for output in case.outputs}
    if down := modes.get(RateMode.HEARTBEAT):
        yield Reading(
            kind=AlertKind.HEARTBEAT,
            description=f"The subscriber is considered down: {down.reason}",
            details={"reason": down.reason},
        )
    elif RateMode.SLOW in modes:
        yield Reading(
            kind=AlertKind.HEARTBEAT, description="It is coming back", is_nearly_over=True
        )


def _retry_buffer(case: Case) -> Iterator[Reading]:
    policy = case.subscription.policy
    full = fullness(policy, case.loads)
    if full < _FULL_OVER:
        return
    wait = policy.exhausted_wait_max
    yield Reading(
        kind=AlertKind.RETRY_BUFFER_FULL,
        description="The retry buffer is full: nothing new is sent before there is room",
        details={
            "parked": sum(load.waiting_retries for load in case.loads),
            "retryBufferSize": policy.retry_buffer_max,
            "exhaustedWaitMax": None if wait is None else int(wait.total_seconds()),
        },
        is_nearly_over=full < 1,
    )


def _undelivered(case: Case, limits: Limits) -> Iterator[Reading]:
    subscription_health = case.subscription_health
    share = subscription_health.discarded_share
    if share < limits.undelivered * _SHARE_OVER or not subscription_health.discarded:
        return
    few = subscription_health.discarded < DISCARDED_MIN
    yield Reading(
        kind=AlertKind.UNDELIVERED,
        description=f"{share:.0%} of the messages of the last minute were discarded",
        details={"discarded": subscription_health.discarded, "share": round(share, 4)},
        is_nearly_over=few or share < limits.undelivered,
    )


def _loss(case: Case, limits: Limits, now: datetime) -> Iterator[Reading]:
    loss = case.subscription_health.first_loss
    if loss is None or loss.at - now > limits.loss * _SPAN_OVER:
        return
    seconds = max(0.0, (loss.at - now).total_seconds())
    yield Reading(
        kind=AlertKind.LOSS_FORECAST,
        description=f"The first message will be lost in {seconds:.0f} s ({loss.cause})",
        details={
            "cause": loss.cause.value,
            "firstLossAt": loss.at.isoformat(),
            "expiring": loss.messages,
            "rateNeeded": None if loss.rate is None else round(loss.rate, 3),
            "outputRate": round(case.subscription_health.output_rate, 3),
        },
        is_nearly_over=loss.at - now > limits.loss,
    )


def _missing(case: Case) -> Iterator[Reading]:
    if (short := case.short) is not None:
        yield Reading(
            kind=AlertKind.LEDGER_MISSING,
            description=f"{short.missing} messages are missing: see entry {short.number} of its"
            " ledger",
            details={
                "entry": short.number,
                "missing": short.missing,
                "from": short.since.isoformat(),
                "to": short.until.isoformat(),
            },
        )


def _certificate(case: Case, limits: Limits, now: datetime) -> Iterator[Reading]:
    certificate = case.subscription.client_certificate
    if certificate is not None and certificate.not_after - now <= limits.expiry:
        until = certificate.not_after
        yield Reading(
            kind=AlertKind.CERTIFICATE_EXPIRY,
            description=f"The client certificate expires on {until:%Y-%m-%d}",
            details={"expiresAt": until.isoformat(), "subject": certificate.subject},
        )


def _secrets(case: Case, limits: Limits, now: datetime) -> Iterator[Reading]:
    """Yield a problem for each kind of signing secret whose secrets all expire soon.

    If only some secrets of a kind expire, there is no problem: the other secrets have replaced
    them.
    """
    secrets = signing_at(case.subscription.signing_secrets, now)
    for kind in sorted({each.kind for each in secrets}):
        ends = [each.expires_at for each in secrets if each.kind is kind]
        last = max((end for end in ends if end is not None), default=None)
        if None in ends or last is None or last - now > limits.expiry:
            continue
        yield Reading(
            kind=AlertKind.SECRET_EXPIRY,
            description=f"The last signing secret ({kind}) expires on {last:%Y-%m-%d}",
            details={"expiresAt": last.isoformat(), "signature": kind.value},
        )


class AlertChanges(NamedTuple):
    """The alerts to report: those that were raised now, and those that were cleared now."""

    raised: Sequence[Alert]
    cleared: Sequence[Alert]


class AlertBook:
    """Decides when alerts are raised and cleared. For this, it remembers how long problems last."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        # For a problem without an alert, the time when the problem began. For an alert without a
        # problem, the time when the problem ended.
        self._since: dict[tuple[str, AlertKind], datetime] = {}

    def changes(
        self,
        active: Sequence[Alert],
        read: Sequence[tuple[Subscription, Sequence[Reading]]],
        now: datetime,
    ) -> AlertChanges:
        """Return the alerts to raise and to clear.

        Args:
            active: The alerts that were raised and are not cleared yet.
            read: The subscriptions, each with the problems that it has now.
            now: The current time.
        """
        known = {(alert.subscription_id, alert.kind): alert for alert in active}
        found = {(who.id, each.kind): (who, each) for who, what in read for each in what}
        beginning = {key for key, (_, each) in found.items() if not each.is_nearly_over}
        over = known.keys() - found.keys()
        changing = (beginning - known.keys()) | over
        self._since = {key: self._since.get(key, now) for key in changing}
        raised = [
            self._alert(*found[key], now)
            for key in sorted(beginning - known.keys())
            if now - self._since[key] >= _RAISED_AFTER.get(key[1], _NO_TIME)
        ]
        there = {who.id for who, _ in read}
        cleared = [
            replace(known[key], cleared_at=now)
            for key in sorted(over)
            if key[0] not in there or now - self._since[key] >= _CLEARED_AFTER.get(key[1], _NO_TIME)
        ]
        return AlertChanges(raised, cleared)

    def _alert(self, subscription: Subscription, reading: Reading, now: datetime) -> Alert:
        return Alert(
            id=self._new_id(),
            kind=reading.kind,
            subscription_id=subscription.id,
            topic=subscription.topic,
            subscription=subscription.name,
            description=reading.description,
            details=reading.details,
            raised_at=now,
        )
