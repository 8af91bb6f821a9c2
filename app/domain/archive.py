"""The archive: what a topic's messages are kept in beside the log (Hermes' offline storage).

A Spark job copies what is new in the log into Parquet files. What it wrote counts, all at once,
when the job is done; how far the archive reaches moves with it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from app.domain.errors import ValidationFailedError

RETENTION_DAYS_MAX: Final = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineStorage:
    """Whether a topic is archived, and how many days that is kept; None: for ever.

    Switched off again, it keeps what it has for as long.
    """

    enabled: bool = False
    days: int | None = 0

    def __post_init__(self) -> None:
        if self.days is None:
            return
        least = 1 if self.enabled else 0
        if not least <= self.days <= RETENTION_DAYS_MAX:
            raise ValidationFailedError.of(
                "offlineStorage.retentionTime.duration",
                f"must be {least} to {RETENTION_DAYS_MAX} days, or infinite",
            )


def is_due(last: datetime | None, now: datetime) -> bool:
    """Whether another hour has begun since the archive of all topics was asked for last."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return last is None or last < hour
