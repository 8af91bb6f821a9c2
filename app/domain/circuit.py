"""Circuit breakers: their settings, and the states of a circuit."""

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
    """The types of failures of attempts.

    HTTP_5XX is for all statuses from 500 to 599, so a 503 has both HTTP_5XX and HTTP_503.
    CONNECTION: there was no readable response, and the reason is not a timeout. EXPRESSION: the
    subscription's failure expression is true for the response.
    """

    TIMEOUT = "TIMEOUT"
    CONNECTION = "CONNECTION"
    HTTP_5XX = "HTTP_5XX"
    HTTP_429 = "HTTP_429"
    HTTP_503 = "HTTP_503"
    EXPRESSION = "EXPRESSION"


class TimeUnit(StrEnum):
    """A unit of time. The names are those of Anypoint MQ."""

    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"

    @property
    def length(self) -> timedelta:
        """The length of one unit."""
        return timedelta(**{self.value.lower(): 1})


class CircuitState(StrEnum):
    """The state of a circuit.

    CLOSED: all requests are sent. OPEN: no request is sent. HALF_OPEN: one message is sent, to try
    whether the subscriber accepts it.
    """

    CLOSED = "CLOSED"
    HALF_OPEN = "HALF_OPEN"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """The settings of a circuit breaker.

    Attributes:
        error_types: The types of failures that the circuit breaker counts.
        errors_threshold: After this number of failures, one after another, the circuit opens, and
            nothing is sent.
        trip_timeout: How long the circuit stays open before one message is sent, to try again.
        trip_timeout_unit: The unit of `trip_timeout`.
        circuit_name: Subscriptions with the same name share a circuit. A subscription without a
            name has a circuit of its own.
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
        """How long the circuit stays open before one message is sent, to try again."""
        return self.trip_timeout * self.trip_timeout_unit.length


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitReading:
    """The state of a circuit, since when the circuit is in this state, and the reason.

    A circuit that is CLOSED has no reason.
    """

    state: CircuitState
    since: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCircuit:
    """A circuit that subscriptions share by its name, as workers store it for other workers.

    Attributes:
        name: The name of the circuit.
        number: The number of the circuit's last change.
        open: Whether the circuit is OPEN or HALF_OPEN.
        opens_in: If the circuit is open: the time until one message may be sent, to try again. It
            is negative if this message may be sent already.
        since: Since when the circuit is open, or since when it is closed.
        reason: Why the circuit is open.
    """

    name: str
    number: int
    open: bool
    opens_in: timedelta
    since: datetime
    reason: str


def _invalid(name: str, problem: str) -> ValidationFailedError:
    return ValidationFailedError.of(f"circuitBreaker.{name}", problem)
