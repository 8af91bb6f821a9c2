"""Reads and writes the archive for Spark jobs, by calls that block.

URLs are in psycopg's form.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from psycopg import sql
from psycopg.types.json import Jsonb

from app.domain.replay.coverage import Stretch
from app.domain.replay.retransmission import OffsetSpan
from app.storage.spark.copying import connected

# The maximum number of folders that one job removes. The next job removes the remaining folders.
REMOVED_MAX: Final = 1_000

_TOPICS: Final = sql.SQL("""
SELECT name, created_at FROM topics
WHERE settings @> '{{"offline_storage": {{"enabled": true}}}}'
  AND ({name}::text IS NULL OR name = {name}) ORDER BY name
""")
_POSITIONS: Final = sql.SQL("""
SELECT t.name, p.partition, p.next_offset FROM archive_positions p
JOIN topics t ON t.name = p.topic AND t.created_at = p.topic_created_at
WHERE t.name = ANY({topics})
""")
_KEPT: Final = sql.SQL("""
SELECT f.topic, f.path, f.spans FROM archive_folders f
JOIN topics t ON t.name = f.topic AND t.created_at = f.topic_created_at
WHERE f.state = 'KEPT' AND f.topic = ANY({topics}) ORDER BY f.begun_at
""")
_BEGIN: Final = sql.SQL("""
INSERT INTO archive_folders (job_id, attempt, topic, topic_created_at, path, spans)
VALUES ({job_id}, {attempt}, {topic}, {created_at}, {path}, {spans})
""")
_SPANS: Final = sql.SQL("""
UPDATE archive_folders SET spans = {spans}
WHERE job_id = {job_id} AND attempt = {attempt} AND topic = {topic}
""")
_PIECES: Final = sql.SQL("""
COPY archive_pieces (job_id, attempt, topic, day, partition, start, "end", first_ms, last_ms,
  messages, size) FROM STDIN
""")
# Marks folders as no longer valid if they belong to a deleted topic, or are older than the time for
# which their topic's archive is kept.
_EXPIRE: Final = sql.SQL("""
UPDATE archive_folders f SET state = 'DROPPED', dropped_at = clock_timestamp()
WHERE f.state = 'KEPT' AND NOT EXISTS (
  SELECT FROM topics t WHERE t.name = f.topic AND t.created_at = f.topic_created_at
    AND f.begun_at >= clock_timestamp() - make_interval(
      days => coalesce((t.settings #>> '{{offline_storage,days}}')::int, 1000000)))
""")
_FORGET: Final = sql.SQL("""
DELETE FROM archive_positions p WHERE NOT EXISTS (
  SELECT FROM topics t WHERE t.name = p.topic AND t.created_at = p.topic_created_at)
""")
# Selects the folders to remove: folders that are no longer valid, and folders that never became
# valid, because the claim that wrote them has ended.
_REMOVABLE: Final = sql.SQL("""
SELECT f.job_id, f.attempt, f.topic, f.path FROM archive_folders f
WHERE (f.state = 'DROPPED' AND f.dropped_at <= clock_timestamp() - {dropped_for}::interval)
  OR (f.state = 'WRITING' AND f.begun_at <= clock_timestamp() - {abandoned_for}::interval
    AND NOT EXISTS (SELECT FROM spark_jobs j WHERE j.id = f.job_id AND j.attempt = f.attempt
      AND j.state = 'RUNNING'))
ORDER BY f.begun_at LIMIT {limit}
""")
_REMOVED: Final = sql.SQL("""
DELETE FROM archive_folders
WHERE job_id = {job_id} AND attempt = {attempt} AND topic = {topic}
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopic:
    """A topic to archive. A topic that was deleted and created again is another topic."""

    name: str
    created_at: datetime


class Piece(NamedTuple):
    """The part of a folder for one day and one partition, as it was written.

    It has the offsets from `start` to before `end`.
    """

    day: date
    partition: int
    start: int
    end: int
    first_ms: int
    last_ms: int
    messages: int
    size: int


class Folder(NamedTuple):
    """A folder of archive files for a topic, written by one claim of a job."""

    job_id: str
    attempt: int
    topic: str
    path: str


class KeptFolder(NamedTuple):
    """A valid folder of archive files, with the range of offsets that it has for each partition."""

    path: str
    spans: Mapping[int, Stretch]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRetention:
    """How long files are kept that may still be in use.

    Attributes:
        dropped_for: How long to keep files that are not valid any more.
        abandoned_for: How long to keep files that never became valid, such as files of failed jobs.
    """

    dropped_for: timedelta = timedelta(hours=1)
    abandoned_for: timedelta = timedelta(days=1)


def archived_topics(url: str, name: str | None) -> Sequence[ArchivedTopic]:
    """Return the topics to archive: all of them, or only the topic `name`."""
    with connected(url) as connection:
        rows = connection.execute(_TOPICS.format(name=name)).fetchall()
    return [ArchivedTopic(name=name, created_at=created_at) for name, created_at in rows]


def archived_until(url: str, topics: Collection[str]) -> Mapping[str, Mapping[int, int]]:
    """Return, by topic and partition, the first offset that is not archived yet.

    Partitions from which nothing is archived are left out.
    """
    query = _POSITIONS.format(topics=list(topics))
    found: dict[str, dict[int, int]] = {}
    with connected(url) as connection:
        for name, partition, offset in connection.execute(query).fetchall():
            found.setdefault(name, {})[partition] = offset
    return found


def kept_folders(url: str, topics: Collection[str]) -> Mapping[str, Sequence[KeptFolder]]:
    """Return the valid archive folders of the topics with these names, by topic.

    Folders of deleted topics that had the same name are left out.
    """
    with connected(url) as connection:
        rows = connection.execute(_KEPT.format(topics=list(topics))).fetchall()
    found: dict[str, list[KeptFolder]] = {}
    for topic, path, spans in rows:
        stretches = {int(index): Stretch(*span) for index, span in spans.items()}
        found.setdefault(topic, []).append(KeptFolder(path, stretches))
    return found


def begin_folder(
    url: str, folder: Folder, topic: ArchivedTopic, *, spans: Collection[OffsetSpan]
) -> None:
    """Record that these ranges of offsets will be written to the folder, which is not valid yet."""
    values = folder._asdict() | {"created_at": topic.created_at, "spans": _spans_json(spans)}
    with connected(url) as connection:
        connection.execute(_BEGIN.format(**values))


def describe_folder(
    url: str, folder: Folder, pieces: Iterable[Piece], *, spans: Collection[OffsetSpan]
) -> None:
    """Record what was written to the folder, and the ranges in it without unexpected gaps."""
    key = folder[:3]
    with connected(url) as connection:
        connection.execute(_SPANS.format(**folder._asdict(), spans=_spans_json(spans)))
        with connection.cursor().copy(_PIECES) as copy:
            for piece in pieces:
                copy.write_row((*key, *piece))


def expire_folders(url: str) -> None:
    """Mark folders as no longer valid if their topic is deleted, or their retention is over."""
    with connected(url) as connection:
        connection.execute(_EXPIRE.format())
        connection.execute(_FORGET.format())


def removable_folders(url: str, patience: FileRetention) -> Sequence[Folder]:
    """Return folders whose files may be deleted now, at most REMOVED_MAX."""
    query = _REMOVABLE.format(
        dropped_for=patience.dropped_for, abandoned_for=patience.abandoned_for, limit=REMOVED_MAX
    )
    with connected(url) as connection:
        return [Folder(*row) for row in connection.execute(query).fetchall()]


def forget_folder(url: str, folder: Folder) -> None:
    """Record that the folder's files are deleted."""
    query = _REMOVED.format(**folder._asdict())
    with connected(url) as connection:
        connection.execute(query)


def _spans_json(spans: Collection[OffsetSpan]) -> Jsonb:
    return Jsonb({str(span.partition): [span.start, span.end] for span in spans})
