"""Runs one requested job in a process that `spark-submit` starts, in the same way as a runner.

The process claims the job in the database with a lease, and renews the lease. If the process ends
before the job, it releases the job, or the claim expires. Then another process claims the job, and
later reports of this process change nothing.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.errors import AngeliaError, JobNotFoundError
from app.domain.job import Job, JobKind, JobResult, JobState
from app.log.factory import open_log
from app.postgres.urls import DatabaseUrl, libpq_url
from app.storage.database import Database, open_database
from app.storage.embedded.configured import configured_url
from app.storage.insight.jobs import JobRepository
from app.storage.keyring import open_vault
from app.storage.notices import JOBS, listen
from app.telemetry import configure_logging
from spark.runner import Runner, RunnerPace
from spark.session import submitted_session
from spark.store import DatabaseJobs
from spark.tasks import SessionJobs
from spark.work import Work, WorkProgress, work_of

Do = Callable[[SparkSession, Work], JobResult]


def carry_out(kinds: Collection[JobKind], do: Do, arguments: Sequence[str]) -> None:
    """Run one job of these kinds: the job that the arguments name, or the longest-waiting one.

    The last line of standard output says how the job ended, as JSON. `spark-submit` also writes
    this process's standard error to standard output.

    Raises:
        SystemExit: Always. The exit code is 0 if the job is DONE.
    """
    wanted = _parser(kinds).parse_args(arguments).job
    settings = Settings()
    configure_logging(settings.log_level)
    # Show only warnings of py4j, because py4j logs every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    url = configured_url(settings)
    if url is None:
        raise SystemExit("Set ANGELIA_DATABASE_URL to the database that has the job.")
    # Start Spark before the job is claimed. So a claimed job does not wait for the start of Spark,
    # and does not fail if Spark cannot start.
    engine = SubmittedEngine(submitted_session(settings), settings, libpq_url(url), do)
    try:
        job = asyncio.run(_ended(url, engine, kinds=kinds, wanted=wanted))
    except AngeliaError as error:
        raise SystemExit(error.message) from error
    outcome = {"id": job.id, "state": job.state, "counts": job.result.counts, "reason": job.reason}
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.exit(0 if job.state is JobState.DONE else 1)


@dataclass(frozen=True, slots=True)
class SubmittedEngine:
    """Runs one job by the function `do`, in this process's Spark session. Both methods block."""

    session: SparkSession
    settings: Settings
    database_url: str
    do: Do

    def run(self, job: Job, progress: WorkProgress) -> JobResult:
        """Run the job, and return its result. Errors of the job are raised."""
        self.session.sparkContext.setJobGroup(job.id, f"{job.kind} {job.id}", True)  # noqa: FBT003 - PySpark has it by position
        progress.watch(SessionJobs(self.session, job.id))
        work = work_of(job, self.settings, database_url=self.database_url, progress=progress)
        return self.do(self.session, work)

    def cancel(self, job: Job) -> None:
        """Cancel Spark's work for the job."""
        self.session.sparkContext.cancelJobGroup(job.id)


async def _ended(
    url: DatabaseUrl, engine: SubmittedEngine, *, kinds: Collection[JobKind], wanted: str | None
) -> Job:
    """Claim and run one job. Return the job in the state that it has after the run.

    `wanted` is the id of the job to run. If it is None, run the job of these kinds that has waited
    longest.

    Raises:
        JobNotFoundError: No such job waits for a runner.
    """
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    opened = open_database(url, vault=open_vault(engine.settings))
    async with opened as database, listen(url, [JOBS]) as notices:
        job = await _taken(database, name, kinds=kinds, wanted=wanted)
        log = partial(open_log, engine.settings, database_url=url)
        store = DatabaseJobs(database, notices, name, open_a_log=log)
        await Runner(store, engine).carry_out(job, stopping)
        async with database.transaction() as session:
            return await JobRepository(session).get(job.id)


async def _taken(
    database: Database, name: str, *, kinds: Collection[JobKind], wanted: str | None
) -> Job:
    lease = RunnerPace().lease
    async with database.transaction() as session:
        jobs = JobRepository(session)
        if job := await jobs.take(name, lease, kinds=kinds, job_id=wanted):
            return job
        if wanted is None:
            raise JobNotFoundError(f"No job of kind {_named(kinds)} waits")
        known = await jobs.get(wanted)
    raise JobNotFoundError(f"Job {wanted} does not wait: it is of kind {known.kind}, {known.state}")


def _named(kinds: Collection[JobKind]) -> str:
    return " or ".join(kinds)


def _parser(kinds: Collection[JobKind]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Do a requested job of kind {_named(kinds)}.")
    parser.add_argument("--job", help="its id; the one that has waited longest")
    return parser
