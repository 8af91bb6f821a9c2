"""How a subscription takes messages from the log, in the terms of Anypoint MQ's subscriber."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FETCH_SIZE_MAX: Final = 10_000
POLL_SIZE_MAX: Final = 10_000
# The maximum number of concurrent reads of one subscription. So up to FETCHES_MAX times
# `fetch_size` messages may be waiting.
FETCHES_MAX: Final = 3
# The limits of `fetch_timeout`, in milliseconds.
FETCH_TIMEOUT_MS: Final = range(100, 60_001)
# The limits of `frequency`, in milliseconds. A few readers read for all subscriptions, so failing
# reads must not repeat too often.
FREQUENCY_MS: Final = range(1_000, 60_001)
# The limits of `polling_time`, in milliseconds.
POLLING_TIME_MS: Final = range(100, 3_600_001)


class FetchMode(StrEnum):
    """When messages are taken from the log.

    PREFETCH: immediately when there are any. POLLING: some at a time, at fixed times.
    """

    PREFETCH = "PREFETCH"
    POLLING = "POLLING"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """When a subscription takes messages from the log, and how many of them wait to be sent.

    Attributes:
        mode: Whether messages are taken as soon as possible, or at fixed times.
        fetch_size: With PREFETCH, at most FETCHES_MAX times this many messages wait to be sent.
        fetch_timeout: A read that takes longer does not delay the subscription's next read or poll.
        frequency: The pause after a read that failed or found nothing.
        poll_size: With POLLING, the maximum number of messages that are taken at a time.
        polling_time: With POLLING, the time between two polls. A poll also waits until the messages
            of the poll before are delivered, discarded, or wait for a retry.
    """

    mode: FetchMode = FetchMode.PREFETCH
    fetch_size: int = 500
    fetch_timeout: timedelta = timedelta(milliseconds=1000)
    frequency: timedelta = timedelta(milliseconds=1000)
    poll_size: int = 10
    polling_time: timedelta = timedelta(milliseconds=1000)

    def __post_init__(self) -> None:
        for name, low, high in _LIMITS:
            value = getattr(self, name)
            measured = value / _MILLISECOND if isinstance(value, timedelta) else value
            if not low <= measured <= high:
                raise ValidationFailedError.of(
                    f"fetch.{FETCH_FIELD_NAMES[name]}", f"must be {low} to {high}"
                )

    @property
    def buffer_max(self) -> int:
        """The maximum number of open messages that wait to be sent."""
        return self.poll_size if self.mode is FetchMode.POLLING else FETCHES_MAX * self.fetch_size


# The public name (Anypoint MQ's) of each setting, for error texts and for the API.
FETCH_FIELD_NAMES: Final[Mapping[str, str]] = {
    "fetch_size": "fetchSize",
    "fetch_timeout": "fetchTimeout",
    "frequency": "frequency",
    "poll_size": "pollSize",
    "polling_time": "pollingTime",
}

_MILLISECOND = timedelta(milliseconds=1)
_LIMITS: Final = (
    ("fetch_size", 1, FETCH_SIZE_MAX),
    ("fetch_timeout", FETCH_TIMEOUT_MS[0], FETCH_TIMEOUT_MS[-1]),
    ("frequency", FREQUENCY_MS[0], FREQUENCY_MS[-1]),
    ("poll_size", 1, POLL_SIZE_MAX),
    ("polling_time", POLLING_TIME_MS[0], POLLING_TIME_MS[-1]),
)
