"""`fetch` of a subscription, with Anypoint MQ's names, units and defaults."""

from datetime import timedelta
from typing import Final, Literal

from pydantic import Field

from app.api.bodies.base import OwnSchema
from app.domain.catalogue.fetch import (
    FETCH_SIZE_MAX,
    FETCH_TIMEOUT_MS,
    FREQUENCY_MS,
    POLL_SIZE_MAX,
    POLLING_TIME_MS,
    FetchMode,
    FetchPolicy,
)

_MILLISECOND: Final = timedelta(milliseconds=1)


class FetchBody(OwnSchema):
    """When messages are taken from the log, and how many wait to be sent."""

    mode: Literal["PREFETCH", "POLLING"] = Field(
        default="PREFETCH", description="as soon as there are any, or some at a time"
    )
    fetch_size: int = Field(
        default=500,
        ge=0,
        le=FETCH_SIZE_MAX,
        description=(
            "PREFETCH: three times as many messages are buffered, at most; 0 means POLLING"
        ),
    )
    fetch_timeout: int = Field(
        default=1000,
        ge=FETCH_TIMEOUT_MS[0],
        le=FETCH_TIMEOUT_MS[-1],
        description="ms after which a slow read of the log no longer delays the next one",
    )
    frequency: int = Field(
        default=1000,
        ge=FREQUENCY_MS[0],
        le=FREQUENCY_MS[-1],
        description="ms until a read of the log that failed or found nothing is repeated",
    )
    poll_size: int = Field(
        default=10, ge=1, le=POLL_SIZE_MAX, description="POLLING: messages of a poll, at most"
    )
    polling_time: int = Field(
        default=1000,
        ge=POLLING_TIME_MS[0],
        le=POLLING_TIME_MS[-1],
        description="POLLING: ms from poll to poll",
    )

    @classmethod
    def of(cls, policy: FetchPolicy) -> "FetchBody":
        """Return the body that describes `policy`."""
        return cls(
            mode=policy.mode.value,
            fetch_size=policy.fetch_size,
            fetch_timeout=policy.fetch_timeout // _MILLISECOND,
            frequency=policy.frequency // _MILLISECOND,
            poll_size=policy.poll_size,
            polling_time=policy.polling_time // _MILLISECOND,
        )

    def to_domain(self) -> FetchPolicy:
        """Return the policy.

        Anypoint MQ's form has no mode. A `fetchSize` of 0 means polling.
        """
        polling = self.fetch_size == 0
        return FetchPolicy(
            mode=FetchMode.POLLING if polling else FetchMode(self.mode),
            fetch_size=self.fetch_size or FetchPolicy().fetch_size,
            fetch_timeout=self.fetch_timeout * _MILLISECOND,
            frequency=self.frequency * _MILLISECOND,
            poll_size=self.poll_size,
            polling_time=self.polling_time * _MILLISECOND,
        )
