"""Spark jobs: what is asked for, where it stands, and who may change that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from app.domain.errors import ValidationFailedError
from app.domain.latency import SLO_MAX, SLO_MIN
from app.domain.names import subscription_name, topic_name

WINDOW_MAX: Final = timedelta(days=366)
LOG_LINES_MAX: Final = 50
LOG_LINE_LENGTH_MAX: Final = 500
# A job that took so many runners down with it would take the next one down too.
LOST_MAX: Final = 3


class JobKind(StrEnum):
    """What a job does."""

    UNDELIVERED_ANALYTICS = "UNDELIVERED_ANALYTICS"
    LATENCY_ANALYTICS = "LATENCY_ANALYTICS"
    # Asked for by its subscription (app.domain.insight.simulation).
    SIMULATION = "SIMULATION"
    # Asked for by its subscription (app.domain.replay.retransmission).
    RETRANSMISSION = "RETRANSMISSION"
    # Asked for by tasks of its own (app.domain.replay.republishing).
    OFFLINE_RETRANSMISSION = "OFFLINE_RETRANSMISSION"
    # Of all archived topics, or one; it looks at no times (app.domain.insight.archive).
    ARCHIVE = "ARCHIVE"
    # Asked for by its subscription, too (app.domain.insight.ledger).
    LEDGER = "LEDGER"


class JobState(StrEnum):
    """Where a job stands; the last three are for good."""

    REQUESTED = "REQUESTED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


ENDED: Final = frozenset({JobState.DONE, JobState.CANCELLED, JobState.FAILED})


class ClaimState(StrEnum):
    """What a runner hears when it reports on a job: go on, stop as asked, or it is not its own."""

    KEPT = "KEPT"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScope:
    """What a job looks at: `start` inclusive, `end` not, both aware; None is all of them.

    `slo` is what LATENCY_ANALYTICS holds deliveries against.
    """

    start: datetime
    end: datetime
    topic: str | None = None
    subscription: str | None = None
    slo: timedelta | None = None

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise ValidationFailedError.of("from", "must be before to")
        if self.end - self.start > WINDOW_MAX:
            raise ValidationFailedError.of("from", f"must be at most {WINDOW_MAX.days} days ago")
        if self.topic is not None:
            topic_name(self.topic, path="topic")
        if self.subscription is not None:
            subscription_name(self.subscription, path="subscription")
            if self.topic is None:
                raise ValidationFailedError.of("topic", "must be given with a subscription")
        if self.slo is not None and not SLO_MIN <= self.slo <= SLO_MAX:
            least, most = SLO_MIN.total_seconds(), SLO_MAX.total_seconds()
            raise ValidationFailedError.of("sloSeconds", f"must be {least:g} to {most:.0f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One taking of a job by one runner. What a later taking has replaced changes nothing."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is: its step in words, the share that is done (0 to 1), its last log lines."""

    step: str = ""
    done: float = 0.0
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job has made: counts by name, where its Parquet files are, examples of its finds."""

    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    output: str | None = None
    samples: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A requested job as it stands.

    `attempt` is the number of times it was taken, `lost` that of its runners that ended in the
    middle of it. `reason` says why it FAILED.
    """

    id: str
    kind: JobKind
    scope: JobScope
    state: JobState
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    runner: str | None = None
    attempt: int = 0
    lost: int = 0
    cancel_requested: bool = False
    progress: JobProgress = JobProgress()
    result: JobResult = JobResult()
    reason: str | None = None

    @property
    def claim(self) -> Claim:
        """The taking that this state of the job is from."""
        return Claim(job_id=self.id, attempt=self.attempt)


def after_loss(job: Job) -> tuple[JobState, str | None]:
    """What becomes of a job whose runner has ended in the middle of it; the reason if it FAILED."""
    if job.cancel_requested:
        return JobState.CANCELLED, None
    if job.lost + 1 >= LOST_MAX:
        return JobState.FAILED, f"{LOST_MAX} runners ended in the middle of it: see their logs"
    return JobState.REQUESTED, None
