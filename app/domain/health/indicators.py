"""Health of subscriptions, by Hermes' indicators (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from app.domain.status import RateMode, SubscriptionLoad


class Health(StrEnum):
    """Hermes' values for the health of a subscription. NO_DATA: its health is not known yet."""

    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    NO_DATA = "NO_DATA"


class Indicator(StrEnum):
    """The kinds of problems that a subscription can have. The names are those of Hermes."""

    LAGGING = "LAGGING"
    UNREACHABLE = "UNREACHABLE"
    TIMING_OUT = "TIMING_OUT"
    MALFUNCTIONING = "MALFUNCTIONING"
    RECEIVING_MALFORMED_MESSAGES = "RECEIVING_MALFORMED_MESSAGES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of a subscription: its kind, and a description with the measured values."""

    code: Indicator
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The limits above which a subscription has a problem: Hermes' defaults.

    Attributes:
        lag: The age of the oldest waiting message.
        unreachable: The part of all attempts that get no response, other than timeouts.
        timing_out: The part of all attempts that time out.
        malfunctioning: The part of all attempts with a 5xx response.
        malformed: The part of all attempts with a 4xx response.
        rate_min: With fewer attempts per second, these four limits apply only while the subscriber
            gets probes.
    """

    lag: timedelta = timedelta(seconds=600)
    unreachable: float = 0.5
    timing_out: float = 0.1
    malfunctioning: float = 0.1
    malformed: float = 0.1
    rate_min: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The measured values from which the problems of a subscription follow.

    Attributes:
        lag: The age of the oldest waiting message.
        rate: All attempts per second. The next four fields are failed attempts per second.
        timeouts: Attempts without a response in time.
        other_errors: Attempts without a response for a reason other than a timeout.
        codes_4xx: Attempts with a 4xx response.
        codes_5xx: Attempts with a 5xx response.
        unapplied: The unexpected error that keeps a worker from sending; empty if there is none.
        held: Why a worker does not read or commit a partition further; empty if there is none.
        is_down: Whether the subscriber gets only probes. Then even a few attempts are meaningful.
        client_errors_matter: Whether messages with a 4xx response are retried.
    """

    lag: timedelta = timedelta()
    rate: float = 0.0
    timeouts: float = 0.0
    other_errors: float = 0.0
    codes_4xx: float = 0.0
    codes_5xx: float = 0.0
    unapplied: str = ""
    held: str = ""
    is_down: bool = False
    client_errors_matter: bool = False


def signs_of(loads: Sequence[SubscriptionLoad], *, lag: timedelta, client_errors: bool) -> Signs:
    """Return the measured values from the workers' reports of a subscription."""
    counted = [(load.counts, load.window.total_seconds()) for load in loads if load.window]
    return Signs(
        lag=lag,
        rate=sum(counts.attempts / window for counts, window in counted),
        timeouts=sum(counts.timeouts / window for counts, window in counted),
        other_errors=sum(counts.other_errors / window for counts, window in counted),
        codes_4xx=sum(counts.codes_4xx / window for counts, window in counted),
        codes_5xx=sum(counts.codes_5xx / window for counts, window in counted),
        unapplied=next((load.output.reason for load in loads if load.output.unapplied), ""),
        held=next((load.output.held for load in loads if load.output.held), ""),
        is_down=any(load.output.mode is RateMode.HEARTBEAT for load in loads),
        client_errors_matter=client_errors,
    )


def problems(signs: Signs, thresholds: Thresholds) -> tuple[Problem, ...]:
    """Return the problems that the values show."""
    return tuple(_lagging(signs, thresholds)) + tuple(_failing(signs, thresholds))


def _lagging(signs: Signs, thresholds: Thresholds) -> Iterator[Problem]:
    if signs.unapplied:
        yield Problem(code=Indicator.LAGGING, description=f"Nothing is sent: {signs.unapplied}")
    elif signs.held:
        yield Problem(code=Indicator.LAGGING, description=signs.held)
    elif signs.lag > thresholds.lag:
        yield Problem(
            code=Indicator.LAGGING,
            description=f"The oldest message that waits is {signs.lag.total_seconds():.0f} s old",
        )


def _failing(signs: Signs, thresholds: Thresholds) -> Iterator[Problem]:
    if signs.rate <= 0 or (signs.rate < thresholds.rate_min and not signs.is_down):
        return
    malformed = signs.codes_4xx if signs.client_errors_matter else 0.0
    for code, failed, most, what in (
        (Indicator.UNREACHABLE, signs.other_errors, thresholds.unreachable, "get no answer"),
        (Indicator.TIMING_OUT, signs.timeouts, thresholds.timing_out, "time out"),
        (Indicator.MALFUNCTIONING, signs.codes_5xx, thresholds.malfunctioning, "are answered 5xx"),
        (
            Indicator.RECEIVING_MALFORMED_MESSAGES,
            malformed,
            thresholds.malformed,
            "are answered 4xx",
        ),
    ):
        if failed > most * signs.rate:
            of = f"{failed:.3g} of {signs.rate:.3g} attempts a second"
            yield Problem(code=code, description=f"{of} {what}")
