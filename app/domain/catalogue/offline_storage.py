"""The settings of a topic's archive. Hermes calls an archive offline storage."""

from dataclasses import dataclass
from typing import Final

from app.domain.errors import ValidationFailedError

RETENTION_DAYS_MAX: Final = 36_500
# How many days an archive is kept if the owner sets no time. Hermes' console has the same default.
RETENTION_DAYS_DEFAULT: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineStorage:
    """Whether a topic is archived, and how many days its archive is kept.

    If `days` is None, the archive is kept forever. If archiving is switched off later, the existing
    archive is still kept for `days`.
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
