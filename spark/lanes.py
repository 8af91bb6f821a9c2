"""The lanes of a runner. Jobs of different lanes run at the same time, on one Spark session.

So short jobs do not wait for long jobs. In one lane, jobs run one after the other.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pyspark.sql import SparkSession

from app.domain.job import JobKind


class Lane(StrEnum):
    """A group of kinds of jobs. The value is the name of its pool in Spark's fair scheduler.

    LEDGERS has the jobs for ledger entries, which are due daily. ANSWERS has jobs for whose results
    people wait. BULK has jobs that send or copy messages, and may take hours.
    """

    LEDGERS = "ledgers"
    ANSWERS = "answers"
    BULK = "bulk"


LANES: Final[Mapping[Lane, frozenset[JobKind]]] = {
    Lane.LEDGERS: frozenset({JobKind.LEDGER, JobKind.LEDGERS}),
    Lane.ANSWERS: frozenset(
        {JobKind.UNDELIVERED_ANALYTICS, JobKind.LATENCY_ANALYTICS, JobKind.SIMULATION}
    ),
    Lane.BULK: frozenset({JobKind.RETRANSMISSION, JobKind.OFFLINE_RETRANSMISSION, JobKind.ARCHIVE}),
}


def lane_of(kind: JobKind) -> Lane:
    """Return the lane of jobs of that kind."""
    return next(lane for lane, kinds in LANES.items() if kind in kinds)


def long_tasks_max(session: SparkSession) -> int:
    """Return how many tasks that take hours may run at the same time.

    One core is left free for short tasks, because Spark does not interrupt a task for another task.
    """
    return max(1, session.sparkContext.defaultParallelism - 1)
