"""Orders the subscriptions that need a person by urgency, and finds an action for each (pure)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from app.console import words

# The kinds of alerts and the problems of health, the most urgent first. First come messages that
# will be lost, then deliveries that are stopped, then deliveries that fail, then problems in the
# future.
_ORDER: Final = (
    "LOSS_FORECAST",
    "SUSPENDED",
    "LEDGER_MISSING",
    "CIRCUIT_OPEN",
    "HEARTBEAT",
    "RETRY_BUFFER_FULL",
    "UNREACHABLE",
    "UNDELIVERED",
    "MALFUNCTIONING",
    "TIMING_OUT",
    "RECEIVING_MALFORMED_MESSAGES",
    "LAGGING",
    "CERTIFICATE_EXPIRY",
    "SECRET_EXPIRY",
)
_GRAVE: Final = 3
_SERIOUS: Final = 12


class FittingAction(StrEnum):
    """What a person can do to solve a problem."""

    RESUME = "resume"
    RAISE = "raise"
    ERRORS = "errors"
    LEDGER = "ledger"
    UNDELIVERED = "undelivered"
    SECRETS = "secrets"
    CERTIFICATES = "certificates"
    LOOK = "look"


_ACTIONS: Final[Mapping[str, FittingAction]] = {
    "SUSPENDED": FittingAction.RESUME,
    "LEDGER_MISSING": FittingAction.LEDGER,
    "CIRCUIT_OPEN": FittingAction.ERRORS,
    "HEARTBEAT": FittingAction.ERRORS,
    "RETRY_BUFFER_FULL": FittingAction.ERRORS,
    "UNREACHABLE": FittingAction.ERRORS,
    "UNDELIVERED": FittingAction.UNDELIVERED,
    "MALFUNCTIONING": FittingAction.ERRORS,
    "TIMING_OUT": FittingAction.ERRORS,
    "RECEIVING_MALFORMED_MESSAGES": FittingAction.ERRORS,
    "CERTIFICATE_EXPIRY": FittingAction.CERTIFICATES,
    "SECRET_EXPIRY": FittingAction.SECRETS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTrouble:
    """One problem of a subscription. `kind` is the kind of an alert, or a code of health."""

    kind: str
    text: str
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCase:
    """A subscription that needs a person.

    `left_s` is the number of seconds until the first message is lost; None if no loss is expected.
    `rate_needed` is the lowest rate at which no message would be lost; None if no rate is high
    enough.
    """

    topic: str
    name: str
    troubles: Sequence[CaseTrouble]
    left_s: float | None
    losing: int
    rate_needed: float | None

    @property
    def worst(self) -> CaseTrouble:
        """The most urgent problem of the subscription."""
        return self.troubles[0]

    @property
    def tone(self) -> str:
        """The CSS class for the urgency: bad, warn or calm."""
        rank = _rank(self.worst.kind)
        return "bad" if rank < _GRAVE else "warn" if rank < _SERIOUS else "calm"

    @property
    def action(self) -> FittingAction:
        """The action that may solve the most urgent problem."""
        if self.worst.kind == "LOSS_FORECAST":
            return FittingAction.ERRORS if self.rate_needed is None else FittingAction.RAISE
        return _ACTIONS.get(self.worst.kind, FittingAction.LOOK)


def cases(
    alerts: Iterable[Mapping[str, Any]], unhealthy: Iterable[Mapping[str, Any]], now: datetime
) -> Sequence[AttentionCase]:
    """Return the subscriptions that have alerts or problems of health, the most urgent first."""
    found: dict[tuple[str, str], list[CaseTrouble]] = {}
    losses: dict[tuple[str, str], Mapping[str, Any]] = {}
    for alert in alerts:
        key = (alert["topicName"], alert["subscriptionName"])
        trouble = CaseTrouble(
            kind=alert["kind"], text=_trouble_text(alert), since=alert["raisedAt"]
        )
        found.setdefault(key, []).append(trouble)
        if alert["kind"] == "LOSS_FORECAST":
            losses[key] = alert["details"]
    for each in unhealthy:
        key = (each["topicName"], each["name"])
        found.setdefault(key, []).extend(
            CaseTrouble(kind=problem["code"], text=problem["description"])
            for problem in each["problems"]
        )
    made = [_case(key, troubles, loss=losses.get(key), now=now) for key, troubles in found.items()]
    return sorted(made, key=_urgency)


def whole_rate(needed: float) -> int:
    """Return a rate to set where `needed` is the lowest rate that is enough.

    It is rounded up to a whole number, and a large one to two digits and zeros.
    """
    whole = max(1, math.ceil(needed))
    step = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // step) * step


def _trouble_text(alert: Mapping[str, Any]) -> str:
    if alert["kind"] != "LOSS_FORECAST":
        return str(alert["description"])
    # The description of this alert is not shown, because it says how much time was left when the
    # alert was raised. The page shows how much time is left now.
    return f"Messages will be lost ({words.loss(alert['details'].get('cause', 'unknown cause'))})"


def _case(
    key: tuple[str, str],
    troubles: Sequence[CaseTrouble],
    *,
    loss: Mapping[str, Any] | None,
    now: datetime,
) -> AttentionCase:
    topic, name = key
    at = loss.get("firstLossAt") if loss else None
    return AttentionCase(
        topic=topic,
        name=name,
        troubles=sorted(troubles, key=lambda each: _rank(each.kind)),
        left_s=None if at is None else max(0.0, (words.moment(at) - now).total_seconds()),
        losing=loss.get("expiring", 0) if loss else 0,
        rate_needed=loss.get("rateNeeded") if loss else None,
    )


def _urgency(case: AttentionCase) -> tuple[int, float, str, str]:
    left = float("inf") if case.left_s is None else case.left_s
    return _rank(case.worst.kind), left, case.topic, case.name


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
