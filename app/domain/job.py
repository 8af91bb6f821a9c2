"""Spark jobs: requests, states, and who may change them."""

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
# A job fails if this many runners end before they finish it. The next runner would probably end,
# too.
LOST_MAX: Final = 3


class JobKind(StrEnum):
    """The kind of a job."""

    UNDELIVERED_ANALYTICS = "UNDELIVERED_ANALYTICS"
    LATENCY_ANALYTICS = "LATENCY_ANALYTICS"
    # Simulates a subscription with other settings (app.domain.insight.simulation). Such a job is
    # for one subscription.
    SIMULATION = "SIMULATION"
    # Chooses the messages of a retransmission (app.domain.replay.retransmission). Such a job is for
    # one subscription.
    RETRANSMISSION = "RETRANSMISSION"
    # Publishes messages of a past time again (app.domain.replay.republishing). Such a job is for a
    # task that a user has created.
    OFFLINE_RETRANSMISSION = "OFFLINE_RETRANSMISSION"
    # Archives all archived topics, or one of them (app.domain.insight.archive). Such a job ignores
    # the times in its scope.
    ARCHIVE = "ARCHIVE"
    # Makes one ledger entry (app.domain.insight.ledger). Such a job is for one subscription.
    LEDGER = "LEDGER"
    # Makes all ledger entries that are due, once a day. Such a job is for many subscriptions.
    LEDGERS = "LEDGERS"


class JobState(StrEnum):
    """The state of a job. DONE, CANCELLED and FAILED are final."""

    REQUESTED = "REQUESTED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


ENDED: Final = frozenset({JobState.DONE, JobState.CANCELLED, JobState.FAILED})


class ClaimState(StrEnum):
    """The answer to a runner that reports the progress of a job.

    KEPT: the runner continues. CANCELLED: the runner stops, because the job was cancelled. LOST:
    the runner stops, because another runner has the job now.
    """

    KEPT = "KEPT"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScope:
    """What a job is about: the time from `start` to before `end` (with time zone), and the topic.

    If `topic` or `subscription` is None, the job is about all topics or subscriptions. `slo` is the
    time limit for deliveries in LATENCY_ANALYTICS.
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
    """The right of one runner to report about one attempt of a job.

    If another runner has taken the job since then, reports with this claim change nothing.
    """

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a job: its step in words, its finished part (0 to 1), its last log lines."""

    step: str = ""
    done: float = 0.0
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The result of a job: counts by name, the folder or URL of its Parquet files, and examples."""

    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    output: str | None = None
    samples: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The current state of a requested job.

    `attempt` is how often a runner has taken the job. `lost` is how many of these runners ended
    before they finished the job. `reason` says why the job FAILED.
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
        """The claim of the runner that has the job in this state."""
        return Claim(job_id=self.id, attempt=self.attempt)


def after_loss(job: Job) -> tuple[JobState, str | None]:
    """Return the new state of a job whose runner has ended, and the reason if it is FAILED."""
    if job.cancel_requested:
        return JobState.CANCELLED, None
    if job.lost + 1 >= LOST_MAX:
        return JobState.FAILED, f"{LOST_MAX} runners ended in the middle of it: see their logs"
    return JobState.REQUESTED, None
