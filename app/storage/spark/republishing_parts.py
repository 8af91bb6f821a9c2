"""The progress of a republishing task, for the Spark tasks that publish its messages.

A Spark task may run on any machine that can reach the database, and imports no more than needed.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple

from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from app.domain.job import Claim
from app.storage.spark.copying import connected

# Restricts a statement to the current claim of the job. If the job is cancelled, the statement
# changes nothing.
_OURS: Final = """
FROM spark_jobs j
WHERE j.id = p.job_id AND j.attempt = {attempt} AND j.state = 'RUNNING' AND NOT j.cancel_requested
  AND p.job_id = {job_id} AND p.partition = {partition}
"""
_TAKE: Final = sql.SQL(f"""
UPDATE offline_parts p SET term = p.term + 1 {_OURS}
RETURNING p.term, p.position, p.ends,
  greatest(0, extract(epoch FROM p.appending_until - clock_timestamp()))
""")  # noqa: S608 - the statement is made of constants only
_SAY: Final = sql.SQL(f"""
UPDATE offline_parts p SET position = {{position}}, written = p.written + {{written}},
  size = p.size + {{size}}, refused = p.refused + {{refused}},
  problem = coalesce(p.problem, {{problem}}), ends = {{ends}},
  appending_until = clock_timestamp() + CAST({{appending}} AS interval)
{_OURS} AND p.term = {{term}}
""")  # noqa: S608 - the statement is made of constants only


class PartLostError(Exception):
    """The republishing task is cancelled, or another Spark task publishes this partition now."""


class PartProgress(NamedTuple):
    """The progress of a publisher since its last report.

    Attributes:
        position: All messages before this offset are handled: published, refused or left out.
        written: How many messages were published.
        size: The bytes of the bodies of the published messages.
        refused: How many messages were refused, because the target topic cannot have them.
        problem: Why one of the refused messages was refused.
    """

    position: int
    written: int = 0
    size: int = 0
    refused: int = 0
    problem: str | None = None


class OfflinePart:
    """One partition of a task's source topic, for its current publisher.

    The messages before `position` are handled. `ends` has the recorded ends of the target's
    partitions; after these ends, there may be more messages of the task. Until the time `wait` is
    over, an append of the previous publisher may still be running.
    """

    def __init__(self, connection: Connection[tuple[Any, ...]], claim: Claim, index: int) -> None:
        self._connection = connection
        self._key = {"job_id": claim.job_id, "attempt": claim.attempt, "partition": index}
        self.partition = index
        row = connection.execute(_TAKE.format(**self._key)).fetchone()
        if row is None:
            raise PartLostError(f"Partition {index} of {claim.job_id} is not ours to publish")
        self._term, self.position, ends, wait_s = row
        self.ends: Mapping[int, int] = {int(index): end for index, end in ends.items()}
        self.wait = timedelta(seconds=float(wait_s or 0))

    def report(
        self, progress: PartProgress, ends: Mapping[int, int], *, appending: timedelta | None = None
    ) -> None:
        """Report the progress, the target's current ends, and how long the next append may take.

        Raises:
            PartLostError: The task is cancelled, or another Spark task publishes this partition
                now.
            StorageUnavailableError: The database cannot be reached.
        """
        stored = {
            **progress._asdict(),
            "ends": Jsonb({str(index): end for index, end in ends.items()}),
            "appending": appending,
        }
        query = _SAY.format(**self._key, **stored, term=self._term)
        if self._connection.execute(query).rowcount != 1:
            raise PartLostError(f"Partition {self.partition} is not ours to publish any more")


@contextmanager
def part_taken(url: str, claim: Claim, partition: int) -> Iterator[OfflinePart]:
    """Become the publisher of the partition `partition` of the task's source topic.

    `url` is in psycopg's form.

    Raises:
        PartLostError: The task is cancelled.
        StorageUnavailableError: The database cannot be reached.
    """
    with connected(url) as connection:
        # Commit each statement immediately, so that other processes see the reported progress.
        connection.autocommit = True
        yield OfflinePart(connection, claim, partition)
