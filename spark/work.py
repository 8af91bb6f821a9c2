"""The input of a job, and its progress reports."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event, Lock

from app.config import Settings
from app.domain.job import LOG_LINE_LENGTH_MAX, LOG_LINES_MAX, Claim, Job, JobProgress, JobScope
from app.log.factory import LogLocation
from spark.steps import SparkJobs, done_within


class WorkStoppedError(Exception):
    """Raised in a job that was stopped on request."""


class WorkProgress:
    """The progress of a job. The thread that runs the job writes it, and another thread reads it.

    `log` has the lines that earlier attempts of the job reported.
    """

    def __init__(self, log: tuple[str, ...] = ()) -> None:
        self._lock = Lock()
        self._step = ""
        self._done = self._start = self._until = 0.0
        self._spark: SparkJobs | None = None
        self._begun_before = 0
        self._log = deque(log, maxlen=LOG_LINES_MAX)
        self._stopped = Event()

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Request that the job ends at its next step."""
        self._stopped.set()

    def rest(self, time: timedelta) -> None:
        """Wait for `time`, or until a stop is requested.

        Raises:
            WorkStoppedError: A stop was requested.
        """
        if self._stopped.wait(time.total_seconds()):
            raise WorkStoppedError

    def watch(self, spark: SparkJobs) -> None:
        """From now on, read the progress of the job's steps from `spark`."""
        with self._lock:
            self._spark = spark

    def step(self, name: str, *, done: float, until: float) -> None:
        """Begin a step with this name.

        During the step, the finished part of the whole job grows from `done` to `until`. Both are
        from 0 to 1. If Spark has ended, Spark's errors are raised.

        Raises:
            WorkStoppedError: A stop was requested.
        """
        if self.stopped:
            raise WorkStoppedError
        begun = 0 if self._spark is None else self._spark.begun()
        with self._lock:
            self._step, self._start, self._until = name, done, until
            self._done, self._begun_before = max(self._done, done), begun
        self.report(name)

    def look(self) -> None:
        """Read from Spark how much of the step is finished. Block until Spark responds."""
        with self._lock:
            spark, before, step = self._spark, self._begun_before, (self._start, self._until)
        if spark is None:
            return
        done = done_within(*step, spark.since(before))
        with self._lock:
            # Ignore a lower value than before, because it may belong to the previous step.
            self._done = max(self._done, done)

    def report(self, line: str) -> None:
        """Add a line, with the current time, to the job's report of its progress.

        If there are too many lines, drop the oldest one.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._log.append(f"{now} {line}"[:LOG_LINE_LENGTH_MAX])

    def now(self) -> JobProgress:
        """Return the current progress."""
        with self._lock:
            return JobProgress(step=self._step, done=self._done, log=tuple(self._log))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job to run.

    Attributes:
        database_url: The URL of the database, in psycopg's form.
        scope: The topic, subscription and time that the job is about.
        output: The folder (or URI) for the Parquet files of the job.
        claim: The claim of the job. If it is None, only Parquet files are written, and nothing is
            written to the database.
        progress: The progress of the job, which the job updates.
        log: Where the log is.
        archive: The folder (or URI) of the archive.
    """

    database_url: str
    scope: JobScope
    output: str
    claim: Claim | None
    progress: WorkProgress
    log: LogLocation = field(default_factory=LogLocation)
    archive: str = ""


def work_of(job: Job, settings: Settings, *, database_url: str, progress: WorkProgress) -> Work:
    """Return the work for a job; `database_url` is in psycopg's form."""
    return Work(
        database_url=database_url,
        scope=job.scope,
        # Use a new folder for each attempt, so that no folder has files of two attempts.
        output=f"{settings.spark_results}/{job.kind.lower()}/{job.id}/{job.attempt}",
        archive=f"{settings.spark_results}/archive",
        claim=job.claim,
        progress=progress,
        log=LogLocation(
            kafka_bootstrap=settings.kafka_bootstrap,
            kafka_security=settings.kafka_security,
            kafka_committed_only=settings.kafka_isolation_level == "read_committed",
            kafka_rack=settings.kafka_client_rack or "",
            kafka_idempotence=settings.kafka_idempotence,
            namespace=settings.namespace,
        ),
    )
