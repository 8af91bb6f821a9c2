"""The archive: what a topic's messages are kept in beside the log (Hermes' offline storage).

A Spark job copies what is new in the log into Parquet files. What it wrote counts, all at once,
when the job is done; how far the archive reaches moves with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFolder:
    """A folder of Parquet files that counts: what one job has archived of a topic.

    The times, in milliseconds since the epoch, are those of its first and last message.
    """

    path: str
    archived_at: datetime
    messages: int
    size: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The archive of a topic: its newest folders, how much there is in all of them.

    `until` says of each partition that was archived which offset is the first that is not.
    """

    folders: tuple[ArchivedFolder, ...] = ()
    messages: int = 0
    size: int = 0
    until: Mapping[int, int] = field(default_factory=dict, hash=False)


def is_due(last: datetime | None, now: datetime) -> bool:
    """Whether another hour has begun since the archive of all topics was asked for last."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return last is None or last < hour
