"""Reads and updates republishing tasks for Spark jobs, by calls that block, from any machine.

URLs are in psycopg's form (`app.postgres.urls.libpq_url`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from app.domain.catalogue.topic import Topic
from app.domain.errors import JobNotFoundError, TopicNotFoundError
from app.domain.job import Claim
from app.domain.replay.republishing import RepublishRequest
from app.domain.replay.retransmission import OffsetSpan
from app.storage.catalogue.rows import topic_of
from app.storage.json_values import from_json
from app.storage.spark.copying import connected
from app.storage.tables import TopicRow

_REQUEST: Final = sql.SQL("SELECT request FROM offline_tasks WHERE job_id = {job_id}")
_TOPIC: Final = sql.SQL("""
SELECT name, owner_source, owner_id, description, partitions, settings, change, created_at,
  modified_at FROM topics WHERE name = {name}
""")
# Adds a row for a partition of the source topic. If the row exists, it has the progress of an
# earlier run of the job, and is not changed.
_BEGIN: Final = sql.SQL("""
INSERT INTO offline_parts (job_id, partition, start, "end", position, ends)
VALUES ({job_id}, {partition}, {start}, {end}, {start}, {ends}) ON CONFLICT DO NOTHING
""")
_POSITIONS: Final = sql.SQL("SELECT partition, position FROM offline_parts WHERE job_id = {job_id}")
_COMPLETE: Final = sql.SQL("""
UPDATE offline_parts p SET position = p."end", appending_until = NULL FROM spark_jobs j
WHERE p.job_id = {job_id} AND j.id = p.job_id AND j.attempt = {attempt} AND j.state = 'RUNNING'
""")
_COUNTS: Final = sql.SQL("""
SELECT coalesce(sum(written), 0)::bigint AS written, coalesce(sum(size), 0)::bigint AS bytes,
  coalesce(sum(refused), 0)::bigint AS refused
FROM offline_parts WHERE job_id = {job_id}
""")


def requested_republishing(url: str, job_id: str) -> RepublishRequest:
    """Return the request of that job.

    Raises:
        JobNotFoundError: The job does not exist.
    """
    with connected(url) as connection:
        row = connection.execute(_REQUEST.format(job_id=job_id)).fetchone()
    if row is None:
        raise JobNotFoundError(f"Nothing is to be published by {job_id}")
    return RepublishRequest(**from_json(RepublishRequest, row[0]))


def topic_as_requested(url: str, name: str, created_at: datetime | None) -> Topic:
    """Return the current topic with that name, if it was not created again since the request.

    `created_at` is the creation time of the requested topic. If it is None, this is not checked.

    Raises:
        TopicNotFoundError: The topic does not exist, or was created again since the request.
    """
    topic = topic_as_it_is(url, name)
    if topic is None or (created_at is not None and topic.created_at != created_at):
        raise TopicNotFoundError(f"Topic {name} was deleted since the task was asked for")
    return topic


def topic_as_it_is(url: str, name: str) -> Topic | None:
    """Return the current topic with that name; None if there is no such topic."""
    with connected(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_TOPIC.format(name=name)).fetchone()
    return None if row is None else topic_of(TopicRow(**row))


def begin_parts(
    url: str, job_id: str, spans: Iterable[OffsetSpan], *, ends: Mapping[int, int]
) -> Mapping[int, int]:
    """Return, by partition of the source topic, the offset at which to continue.

    For a partition without progress, this is the start of its range in `spans`. `ends` has the
    current ends of the target's partitions.
    """
    found = Jsonb({str(index): end for index, end in ends.items()})
    with connected(url) as connection:
        for span in spans:
            key = {"job_id": job_id, "partition": span.partition}
            connection.execute(_BEGIN.format(**key, start=span.start, end=span.end, ends=found))
        return dict(connection.execute(_POSITIONS.format(job_id=job_id)).fetchall())


def complete_parts(url: str, claim: Claim) -> None:
    """Mark all partitions as done, even those in which there was nothing to publish."""
    query = _COMPLETE.format(job_id=claim.job_id, attempt=claim.attempt)
    with connected(url) as connection:
        connection.execute(query)


def republished_counts(url: str, job_id: str) -> Mapping[str, int]:
    """Return how many messages the task has handled so far.

    The keys are `written` and `refused` (messages), and `bytes` (the size of the written bodies).
    """
    with connected(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_COUNTS.format(job_id=job_id)).fetchone()
    return dict(row or {})
