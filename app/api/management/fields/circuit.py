"""`circuitBreaker` of a subscription, with Anypoint MQ's names."""

from typing import Annotated, Literal

from pydantic import Field

from app.api.bodies.base import OwnSchema
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import ERRORS_THRESHOLD_MAX, CircuitBreaker, ErrorType, TimeUnit
from app.domain.names import NAME_LENGTH_MAX

ErrorTypeName = Literal["TIMEOUT", "CONNECTION", "HTTP_5XX", "HTTP_429", "HTTP_503", "EXPRESSION"]
# The timeout has no maximum here. The domain checks its range, which depends on the unit of time.
TripTimeout = Annotated[int, Field(json_schema_extra={"minimum": 1})]
# The limits of the name are only for the OpenAPI document. The domain checks the length and the
# characters.
CircuitName = Annotated[
    str, Field(json_schema_extra={"minLength": 1, "maxLength": NAME_LENGTH_MAX})
]


class CircuitBreakerBody(OwnSchema):
    """Pauses a subscription for some time after too many failures in a row."""

    error_types: list[ErrorTypeName] = Field(
        default=["TIMEOUT", "CONNECTION", "HTTP_5XX", "HTTP_429", "HTTP_503", "EXPRESSION"],
        description="what counts as a failure; HTTP_5XX includes 503",
    )
    errors_threshold: int = Field(
        default=10,
        ge=1,
        le=ERRORS_THRESHOLD_MAX,
        description="so many failures in a row open the circuit",
    )
    trip_timeout: TripTimeout = Field(
        default=30, description="how long it is open, from 100 ms to a day"
    )
    trip_timeout_unit: Literal["MILLISECONDS", "SECONDS", "MINUTES", "HOURS"] = "SECONDS"
    circuit_name: CircuitName | None = Field(
        default=None,
        description="subscriptions that give the same name share one circuit",
        examples=["InvoiceProcess"],
    )

    @classmethod
    def of(cls, breaker: CircuitBreaker) -> "CircuitBreakerBody":
        """Return the body that describes the circuit breaker `breaker`."""
        return cls(
            error_types=[each.value for each in ErrorType if each in breaker.error_types],
            errors_threshold=breaker.errors_threshold,
            trip_timeout=breaker.trip_timeout,
            trip_timeout_unit=breaker.trip_timeout_unit.value,
            circuit_name=breaker.circuit_name,
        )

    def to_domain(self) -> CircuitBreaker:
        """Return the circuit breaker.

        Raises:
            ValidationFailedError: A field is not valid.
        """
        return CircuitBreaker(
            error_types=frozenset(ErrorType(each) for each in self.error_types),
            errors_threshold=self.errors_threshold,
            trip_timeout=self.trip_timeout,
            trip_timeout_unit=TimeUnit(self.trip_timeout_unit),
            circuit_name=self.circuit_name,
        )


def circuit_breaker_body(subscription: Subscription) -> CircuitBreakerBody | None:
    """Return the body of the subscription's circuit breaker; None if it has none."""
    wanted = subscription.circuit_breaker
    return CircuitBreakerBody.of(wanted) if wanted else None
