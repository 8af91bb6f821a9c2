"""The settings for how a subscription takes messages from the log, in terms of Anypoint MQ."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FETCH_SIZE_MAX: Final = 10_000
POLL_SIZE_MAX: Final = 10_000
# The maximum number of concurrent reads of one subscription. Each read returns up to `fetch_size`
# messages, so up to FETCHES_MAX times `fetch_size` messages wait to be sent.
FETCHES_MAX: Final = 3
# The limits of `fetch_timeout`, in milliseconds.
FETCH_TIMEOUT_MS: Final = range(100, 60_001)
# The limits of `frequency`, in milliseconds. The same few readers read for all subscriptions. So a
# subscription whose reads fail must not repeat them too often.
FREQUENCY_MS: Final = range(1_000, 60_001)
# The limits of `polling_time`, in milliseconds.
POLLING_TIME_MS: Final = range(100, 3_600_001)


class FetchMode(StrEnum):
    """When a subscription takes messages from the log.

    PREFETCH: as soon as there are any. POLLING: a limited number, at regular times.
    """

    PREFETCH = "PREFETCH"
    POLLING = "POLLING"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """When a subscription takes messages from the log, and how many messages wait to be sent.

    Attributes:
        mode: Whether messages are taken as soon as possible, or at regular times.
        fetch_size: With PREFETCH, at most FETCHES_MAX times this number of messages wait to be
            sent.
        fetch_timeout: If a read takes longer than this, the next read or poll does not wait for it.
        frequency: The pause after a read that has failed or found nothing.
        poll_size: With POLLING, the maximum number of messages that are taken in one poll.
        polling_time: With POLLING, the time between two polls. A poll also waits until each message
            of the previous poll is delivered, discarded, or waits for a retry.
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
        """The maximum number of open messages of a subscription that wait to be sent."""
        return self.poll_size if self.mode is FetchMode.POLLING else FETCHES_MAX * self.fetch_size


# The name of each setting in the API and in errors. The names are those of Anypoint MQ.
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
