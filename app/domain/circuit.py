"""A circuit breaker: what its owner sets, and in which state a circuit is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.names import NAME_LENGTH_MAX, is_plain_name

ERRORS_THRESHOLD_MAX: Final = 10_000
TRIP_MIN: Final = timedelta(milliseconds=100)
TRIP_MAX: Final = timedelta(days=1)


class ErrorType(StrEnum):
    """What an attempt may fail of. HTTP_5XX is all of 500 to 599, HTTP_503 one of them.

    CONNECTION: no answer that could be read, but not for lack of time. EXPRESSION: an answer of
    which the subscription's failure expression is true.
    """

    TIMEOUT = "TIMEOUT"
    CONNECTION = "CONNECTION"
    HTTP_5XX = "HTTP_5XX"
    HTTP_429 = "HTTP_429"
    HTTP_503 = "HTTP_503"
    EXPRESSION = "EXPRESSION"


class TimeUnit(StrEnum):
    """A unit of time, as Anypoint MQ calls it."""

    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"

    @property
    def length(self) -> timedelta:
        """One of it."""
        return timedelta(**{self.value.lower(): 1})


class CircuitState(StrEnum):
    """CLOSED: all is sent. OPEN: nothing is. HALF_OPEN: one message, to see how it fares."""

    CLOSED = "CLOSED"
    HALF_OPEN = "HALF_OPEN"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """After `errors_threshold` failures of these types in a row nothing is sent for a while.

    The while is `trip_timeout` of `trip_timeout_unit`. Subscriptions with one `circuit_name` share
    a circuit; without a name each has its own.
    """

    error_types: frozenset[ErrorType] = frozenset(ErrorType)
    errors_threshold: int = 10
    trip_timeout: int = 30
    trip_timeout_unit: TimeUnit = TimeUnit.SECONDS
    circuit_name: str | None = None

    def __post_init__(self) -> None:
        if not self.error_types:
            raise _invalid("errorTypes", f"must be one or more of {', '.join(ErrorType)}")
        if not 1 <= self.errors_threshold <= ERRORS_THRESHOLD_MAX:
            raise _invalid("errorsThreshold", f"must be 1 to {ERRORS_THRESHOLD_MAX}")
        unit = self.trip_timeout_unit
        low, high = max(1, TRIP_MIN // unit.length), TRIP_MAX // unit.length
        if not low <= self.trip_timeout <= high:
            raise _invalid("tripTimeout", f"must be {low} to {high} {unit}")
        if self.circuit_name is not None and not is_plain_name(self.circuit_name):
            raise _invalid(
                "circuitName",
                f"must be 1 to {NAME_LENGTH_MAX} letters, digits, '_', '.' or '-'",
            )

    @property
    def open_for(self) -> timedelta:
        """How long its circuit is open before a message may try."""
        return self.trip_timeout * self.trip_timeout_unit.length


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitReading:
    """In which state a circuit is, since when, and why; nobody needs a reason for CLOSED."""

    state: CircuitState
    since: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCircuit:
    """A named circuit as the workers tell each other. Each change of it has another `number`.

    An open one may be tried `opens_in` from now, which is negative when it has been.
    """

    name: str
    number: int
    open: bool
    opens_in: timedelta
    since: datetime
    reason: str


def _invalid(name: str, problem: str) -> ValidationFailedError:
    return ValidationFailedError.of(f"circuitBreaker.{name}", problem)
