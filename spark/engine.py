"""Runs jobs on Spark for the runner, all on one Spark session that stays open."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import Job, JobKind, JobResult
from app.postgres.urls import DatabaseUrl, libpq_url
from spark.errors import EngineLostError
from spark.jobs import (
    archive,
    latency_analytics,
    ledger,
    offline_retransmission,
    retransmission,
    simulation,
    undelivered_analytics,
)
from spark.lanes import lane_of
from spark.session import new_session
from spark.tasks import SessionJobs
from spark.work import Work, WorkProgress, work_of

JOBS: Final[Mapping[JobKind, Callable[[SparkSession, Work], JobResult]]] = {
    JobKind.UNDELIVERED_ANALYTICS: undelivered_analytics.run,
    JobKind.LATENCY_ANALYTICS: latency_analytics.run,
    JobKind.SIMULATION: simulation.run,
    JobKind.RETRANSMISSION: retransmission.run,
    JobKind.OFFLINE_RETRANSMISSION: offline_retransmission.run,
    JobKind.ARCHIVE: archive.run,
    JobKind.LEDGER: ledger.run,
    JobKind.LEDGERS: ledger.run,
}

# The property of a thread that has the name of the thread's pool in Spark's fair scheduler.
POOL: Final = "spark.scheduler.pool"

_log = structlog.get_logger(__name__)


class SparkEngine:
    """Runs jobs on Spark. Several threads may call `run` at the same time. All methods block.

    The Spark session starts with the first job and stays open.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        database_url: DatabaseUrl,
        start: Callable[[Settings], SparkSession] = new_session,
    ) -> None:
        self._settings = settings
        self._start = start
        self._database_url = database_url
        self._session: SparkSession | None = None
        self._starting = Lock()

    def run(self, job: Job, progress: WorkProgress) -> JobResult:
        """Run the job, and return its result.

        Errors of the job are raised. If the job was stopped, WorkStoppedError or an error of Spark
        is raised.

        Raises:
            EngineLostError: Spark has ended.
        """
        if self._session is None:
            progress.step("Starting Spark", done=0.0, until=0.05)
        session = self._warm()
        # Give this thread a group and a pool of Spark. Through the group, all work of Spark for the
        # job can be cancelled. The pool has its own part of Spark's cores, so jobs in other pools
        # can run beside it.
        context = session.sparkContext
        context.setJobGroup(job.id, f"{job.kind} {job.id}", interruptOnCancel=True)
        context.setLocalProperty(POOL, lane_of(job.kind))
        progress.watch(SessionJobs(session, job.id))
        work = work_of(
            job, self._settings, database_url=libpq_url(self._database_url), progress=progress
        )
        try:
            return JOBS[job.kind](session, work)
        except Exception as exc:
            if self._lost():
                raise EngineLostError("Spark's process has ended") from exc
            raise

    def cancel(self, job: Job) -> None:
        """Cancel Spark's work for the job.

        The job may start more work after this call, so repeat the call until `run` returns.
        """
        if self._session is not None:
            # Ignore errors of the cancellation. They mean that Spark has ended, and `run` raises an
            # error for this.
            with suppress(Py4JError, OSError):
                self._session.sparkContext.cancelJobGroup(job.id)

    def close(self) -> None:
        """Stop Spark, if it was started."""
        if self._session is not None:
            with suppress(Py4JError, OSError):
                self._session.stop()
            self._session = None

    def _warm(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                self._session = self._start(self._settings)
                _log.info("spark_started", master=self._settings.spark_master)
            return self._session

    def _lost(self) -> bool:
        if self._session is None:
            return False
        try:
            stopped = self._session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - PySpark has no public method
        except (Py4JError, OSError):
            return True
        return bool(stopped)
