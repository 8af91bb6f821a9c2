"""What a job is given to do, and how it says how far it is."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event, Lock

from app.config import Settings
from app.domain.job import LOG_LINE_LENGTH_MAX, LOG_LINES_MAX, Claim, Job, JobProgress, JobScope
from app.log.factory import LogPlace
from spark.steps import SparkJobs, done_within


class WorkStoppedError(Exception):
    """The job was told to stop, and has."""


class WorkProgress:
    """How far a job is: told by the thread that does it, read and stopped by the one that watches.

    `log` is what was logged before, by an earlier attempt.
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
        """Whether it was told to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have the job end at its next step."""
        self._stopped.set()

    def rest(self, time: timedelta) -> None:
        """Wait so long; WorkStoppedError as soon as it is told to stop."""
        if self._stopped.wait(time.total_seconds()):
            raise WorkStoppedError

    def watch(self, spark: SparkJobs) -> None:
        """From its next step on, what the job does is done by this Spark."""
        with self._lock:
            self._spark = spark

    def step(self, name: str, *, done: float, until: float) -> None:
        """The step that begins, with the shares (0 to 1) done before and with it.

        WorkStoppedError; what Spark raises that is gone.
        """
        if self.stopped:
            raise WorkStoppedError
        begun = 0 if self._spark is None else self._spark.begun()
        with self._lock:
            self._step, self._start, self._until = name, done, until
            self._done, self._begun_before = max(self._done, done), begun
        self.report(name)

    def look(self) -> None:
        """Ask Spark how much of the step is done; it blocks for as long as that does not answer."""
        with self._lock:
            spark, before, step = self._spark, self._begun_before, (self._start, self._until)
        if spark is None:
            return
        done = done_within(*step, spark.since(before))
        with self._lock:
            # It may be of the step before: what is done with that is done before the next.
            self._done = max(self._done, done)

    def report(self, line: str) -> None:
        """One line of the log, with the time; the oldest goes when there are too many."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._log.append(f"{now} {line}"[:LOG_LINE_LENGTH_MAX])

    def now(self) -> JobProgress:
        """How far it is."""
        with self._lock:
            return JobProgress(step=self._step, done=self._done, log=tuple(self._log))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job to do. `output` is the folder (or URI) for its Parquet files.

    `archive` is that of the archive.

    `database_url` is as psycopg has it.

    Without a `claim` nothing is written into the database: only Parquet.
    """

    database_url: str
    scope: JobScope
    output: str
    claim: Claim | None
    progress: WorkProgress
    log: LogPlace = field(default_factory=LogPlace)
    archive: str = ""


def work_of(job: Job, settings: Settings, *, database_url: str, progress: WorkProgress) -> Work:
    """A job of the database, which is at `database_url` as psycopg has it."""
    return Work(
        database_url=database_url,
        scope=job.scope,
        # A folder for each attempt: none finds half of another's files in its own.
        output=f"{settings.spark_results}/{job.kind.lower()}/{job.id}/{job.attempt}",
        archive=f"{settings.spark_results}/archive",
        claim=job.claim,
        progress=progress,
        log=LogPlace(
            kafka_bootstrap=settings.kafka_bootstrap,
            kafka_security=settings.kafka_security,
            kafka_committed_only=settings.kafka_isolation_level == "read_committed",
            namespace=settings.namespace,
        ),
    )
