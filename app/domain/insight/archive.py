"""The archive: a topic's messages outside of the log (Hermes' offline storage).

A Spark job copies new messages from the log to Parquet files. The job's files become valid together
when the job is done, and the end of the archive moves at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFolder:
    """A folder of valid Parquet files, written by one job for a topic.

    `first_ms` and `last_ms` are the times of the oldest and the newest message in the folder, in
    milliseconds since the epoch.
    """

    path: str
    archived_at: datetime
    messages: int
    size: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The archive of a topic: its newest folders, and the number and size of all its messages.

    For each archived partition, `until` has the first offset that is not archived.
    """

    folders: tuple[ArchivedFolder, ...] = ()
    messages: int = 0
    size: int = 0
    until: Mapping[int, int] = field(default_factory=dict, hash=False)


def is_due(last: datetime | None, now: datetime) -> bool:
    """Return whether a new full hour has begun since the last request to archive all topics."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return last is None or last < hour
