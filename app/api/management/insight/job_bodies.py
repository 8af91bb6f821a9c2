"""Spark jobs in requests and responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from app.api.bodies.base import OwnSchema, Schema, Text, parse_own
from app.api.bodies.moments import MomentText
from app.domain.errors import ValidationFailedError
from app.domain.job import Job, JobScope, JobState
from app.domain.latency import SLO_MAX, SLO_MIN
from app.services.insight.jobs import JobsSeen

NO_RUNNER: Final = (
    "No Spark runner is live, so the job waits: run `angelia spark` (it needs Java 17 or newer and"
    " PySpark, and says how to install what is missing)"
)

Kind = Literal["UNDELIVERED_ANALYTICS", "LATENCY_ANALYTICS", "ARCHIVE"]
State = Literal["REQUESTED", "RUNNING", "DONE", "CANCELLED", "FAILED"]


class JobBody(OwnSchema):
    """A requested job.

    Without times it covers the last 24 hours; ARCHIVE covers all new messages.
    """

    kind: Kind
    from_: MomentText | None = Field(
        default=None, alias="from", description="RFC 3339 or ms, inclusive"
    )
    to: MomentText | None = Field(default=None, description="RFC 3339 or ms, exclusive")
    topic: Text | None = Field(default=None, description="only this topic")
    subscription: Text | None = Field(
        default=None, description="only this subscription of the topic"
    )
    slo_seconds: float | None = Field(
        default=None,
        ge=SLO_MIN.total_seconds(),
        le=SLO_MAX.total_seconds(),
        description="LATENCY_ANALYTICS: the SLO, in seconds from publication to delivery",
    )


class ScopeRead(Schema):
    """The scope of a job."""

    from_: str = Field(alias="from")
    to: str
    topic: str | None = None
    subscription: str | None = None
    slo_seconds: float | None = None


class JobRead(Schema):
    """The current state of a job."""

    id: str
    kind: Literal[
        "UNDELIVERED_ANALYTICS",
        "LATENCY_ANALYTICS",
        "SIMULATION",
        "RETRANSMISSION",
        "OFFLINE_RETRANSMISSION",
        "ARCHIVE",
        "LEDGER",
        "LEDGERS",
    ]
    scope: ScopeRead
    state: State
    cancelling: bool = Field(description="its runner has still to hear that it is cancelled")
    waiting_for: str | None = Field(default=None, description="why nothing happens, if it waits")
    step: str | None = Field(default=None, description="what is being done, while it is RUNNING")
    progress: float = Field(description="0 to 1")
    requested_at: str
    started_at: str | None = None
    ended_at: str | None = None
    runner: str | None = None
    attempts: int = Field(description="how often it was taken by a runner")
    counts: dict[str, int] = Field(description="what it found, once it is DONE")
    output: str | None = Field(default=None, description="where its Parquet files are")
    reason: str | None = Field(default=None, description="why it FAILED")
    log: list[str] | None = Field(default=None, description="its last lines")


def job_body(body: Mapping[str, Any]) -> JobBody:
    """Return the job that a request describes.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    requested = parse_own(JobBody, body)
    if requested.kind == "ARCHIVE":
        _require_none(requested)
    if requested.slo_seconds is not None and requested.kind != "LATENCY_ANALYTICS":
        raise ValidationFailedError.of("sloSeconds", "must be given with LATENCY_ANALYTICS only")
    return requested


def _require_none(body: JobBody) -> None:
    """Refuse fields that limit a job to a part of a topic.

    An archive job always covers the whole topic.
    """
    given = (("from", body.from_), ("to", body.to), ("subscription", body.subscription))
    for path, value in given:
        if value is not None:
            raise ValidationFailedError.of(path, "must not be given: ARCHIVE takes all that is new")


def job_state_of(text: str | None) -> JobState | None:
    """Parse the query parameter `state`.

    Raises:
        ValidationFailedError: The text is not a state.
    """
    if text is None:
        return None
    try:
        return JobState(text)
    except ValueError as exc:
        raise ValidationFailedError.of("state", f"must be one of {', '.join(JobState)}") from exc


def jobs_read(seen: JobsSeen, *, with_log: bool = False) -> Sequence[JobRead]:
    """Return the responses for jobs."""
    return [_job_read(job, runner_live=seen.runner_live, with_log=with_log) for job in seen.jobs]


def _job_read(job: Job, *, runner_live: bool, with_log: bool) -> JobRead:
    waits = job.state is JobState.REQUESTED and not runner_live
    return JobRead(
        id=job.id,
        kind=job.kind.value,
        scope=scope_read(job.scope),
        state=job.state.value,
        cancelling=job.cancel_requested and job.state is JobState.RUNNING,
        waiting_for=NO_RUNNER if waits else None,
        step=job.progress.step if job.state is JobState.RUNNING else None,
        progress=round(job.progress.done, 3),
        requested_at=job.requested_at.isoformat(),
        started_at=job.started_at.isoformat() if job.started_at else None,
        ended_at=job.ended_at.isoformat() if job.ended_at else None,
        runner=job.runner,
        attempts=job.attempt,
        counts=dict(job.result.counts),
        output=job.result.output,
        reason=job.reason,
        log=list(job.progress.log) if with_log else None,
    )


def scope_read(scope: JobScope) -> ScopeRead:
    """Return the response for a scope."""
    # The model gets one mapping, because its field `from` cannot be a keyword argument in Python.
    return ScopeRead.model_validate(
        {
            "from": scope.start.isoformat(),
            "to": scope.end.isoformat(),
            "topic": scope.topic,
            "subscription": scope.subscription,
            "sloSeconds": None if scope.slo is None else scope.slo.total_seconds(),
        }
    )
