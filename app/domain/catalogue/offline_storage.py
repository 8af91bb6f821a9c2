"""Whether a topic is archived (Hermes' offline storage)."""

from dataclasses import dataclass
from typing import Final

from app.domain.errors import ValidationFailedError

RETENTION_DAYS_MAX: Final = 36_500
# How long an archive is kept by default, in days, as in Hermes' console.
RETENTION_DAYS_DEFAULT: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineStorage:
    """Whether a topic is archived, and for how many `days` its archive is kept (None: forever).

    If archiving is switched off, the existing archive is still kept for this time.
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
