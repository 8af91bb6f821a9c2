"""What a job is given to do, and how it says how far it is."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event, Lock

from app.config import Settings
from app.domain.job import LOG_LINE_LENGTH_MAX, LOG_LINES_MAX, Claim, Job, JobProgress, Scope


class WorkStoppedError(Exception):
    """The job was told to stop, and has."""


class Progress:
    """How far a job is: told by the thread that does it, read and stopped by the one that watches.

    `log` is what was logged before, by an earlier attempt.
    """

    def __init__(self, log: tuple[str, ...] = ()) -> None:
        self._lock = Lock()
        self._step = ""
        self._done = 0.0
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

    def step(self, name: str, *, done: float) -> None:
        """The step that begins, with the share (0 to 1) done before it; WorkStoppedError."""
        if self.stopped:
            raise WorkStoppedError
        with self._lock:
            self._step, self._done = name, done
        self.say(name)

    def say(self, line: str) -> None:
        """One line of the log, with the time; the oldest goes when there are too many."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._log.append(f"{now} {line}"[:LOG_LINE_LENGTH_MAX])

    def now(self) -> JobProgress:
        """How far it is."""
        with self._lock:
            return JobProgress(step=self._step, done=self._done, log=tuple(self._log))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where the message log is: in Kafka, or (None) in the database. Its names have a prefix."""

    kafka_bootstrap: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job to do. `output` is the folder (or URI) for its Parquet files.

    `archive` is that of the archive.

    `database_url` is as psycopg has it.

    Without a `claim` nothing is written into the database: only Parquet.
    """

    database_url: str
    scope: Scope
    output: str
    claim: Claim | None
    progress: Progress
    log: LogPlace = field(default_factory=LogPlace)
    archive: str = ""


def work_of(job: Job, settings: Settings, *, database_url: str, progress: Progress) -> Work:
    """A job of the database, which is at `database_url` as psycopg has it."""
    return Work(
        database_url=database_url,
        scope=job.scope,
        # A folder for each attempt: none finds half of another's files in its own.
        output=f"{settings.spark_results}/{job.kind.lower()}/{job.id}/{job.attempt}",
        archive=f"{settings.spark_results}/archive",
        claim=job.claim,
        progress=progress,
        log=LogPlace(kafka_bootstrap=settings.kafka_bootstrap, namespace=settings.namespace),
    )
