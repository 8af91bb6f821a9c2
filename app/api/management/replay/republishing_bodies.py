"""Offline retransmission in requests and responses: Hermes' fields, and Angelia's own."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    Rules,
    Schema,
    Text,
    ignored_fields,
    parse,
)
from app.api.bodies.moments import MomentText, instant_of
from app.api.management.insight.job_bodies import NO_RUNNER, State
from app.domain.errors import ValidationFailedError
from app.domain.job import JobState
from app.domain.replay.republishing import RepublishTask
from app.services.replay.republishing import TasksSeen

_TOPIC: Final = "topic"
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 1, 1, tzinfo=UTC)
_OTHER_FIELDS: Final = OtherFields()


class OfflineTaskBody(Schema):
    """Which messages are published again, and to which topic."""

    type: Text = Field(default=_TOPIC, description="topic: there are no views of data here")
    source_topic: Text = Field(description="whose messages they are")
    target_topic: Text = Field(description="of the same contentType; it may be the source")
    start_timestamp: MomentText = Field(description="published since: RFC 3339, or ms")
    end_timestamp: MomentText = Field(description="end, exclusive")


class OfflineCountsRead(Schema):
    """Counts of messages. The last two count messages that were not published."""

    written: int = Field(description="published to the target")
    bytes: int = Field(description="of the bodies of these")
    refused: int = Field(description="not taken by the target: its schema, or maxMessageSize")
    gone: int = Field(description="requested offsets that are in neither log nor archive")


class OfflineTaskRead(Schema):
    """The current state of a task."""

    type: Literal["topic"]
    task_id: str = Field(description="also of its job")
    source_topic: str
    target_topic: str
    start_timestamp: str
    end_timestamp: str
    created_at: str
    logs_url: str
    metrics_url: str
    job_details_url: str
    state: State
    cancelling: bool = Field(description="its runner has still to hear that it is cancelled")
    waiting_for: str | None = Field(default=None, description="why nothing happens, if it waits")
    progress: float = Field(description="0 to 1")
    ended_at: str | None = None
    counts: OfflineCountsRead
    refusals: list[str] = Field(
        description="why messages were refused: the first of each partition, as"
        " `partition/offset: reason`"
    )
    reason: str | None = Field(default=None, description="why it FAILED")


class WantedTask(NamedTuple):
    """A requested task: the topics to read from and to publish to, and the time of the messages."""

    source: str
    target: str
    since: datetime
    until: datetime


def wanted_task(body: Mapping[str, Any], *, strict: bool) -> WantedTask:
    """Return the task that a request describes.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    _require_topic(body)
    requested = parse(OfflineTaskBody, body, Rules(others=_OTHER_FIELDS, strict=strict))
    return WantedTask(
        source=requested.source_topic,
        target=requested.target_topic,
        since=_instant(requested.start_timestamp, "startTimestamp"),
        until=_instant(requested.end_timestamp, "endTimestamp"),
    )


def ignored_in_task(body: JsonObject) -> tuple[Ignored, ...]:
    """Return the fields of a body that have no effect."""
    return ignored_fields(OfflineTaskBody, body, _OTHER_FIELDS)


def tasks_read(seen: TasksSeen) -> Sequence[OfflineTaskRead]:
    """Return the responses for tasks."""
    return [_task_read(task, runner_live=seen.runner_live) for task in seen.tasks]


def _require_topic(body: Mapping[str, Any]) -> None:
    """Refuse a request whose type is not "topic", before all other checks.

    Hermes can also retransmit views of data. Angelia has only topics.
    """
    kind = body.get("type", _TOPIC)
    if kind != _TOPIC:
        message = "must be topic: there are no views of data here, only topics are retransmitted"
        raise ValidationFailedError.of("type", message)


def _instant(text: str, path: str) -> datetime:
    found = instant_of(text, path=path)
    # Years before 1970 and after 9998 are refused, because they cannot be stored or shown in UTC.
    if found is None or not _FIRST <= found < _END:
        raise ValidationFailedError.of(path, f"must be of the years {_FIRST.year} to 9998")
    return found.astimezone(UTC)


def _task_read(task: RepublishTask, *, runner_live: bool) -> OfflineTaskRead:
    job, request, done = task.job, task.request, task.done
    where = f"/jobs/{job.id}"
    waits = job.state is JobState.REQUESTED and not runner_live
    return OfflineTaskRead(
        type="topic",
        task_id=job.id,
        source_topic=request.source,
        target_topic=request.target,
        start_timestamp=_instant_text(request.since),
        end_timestamp=_instant_text(request.until),
        created_at=_instant_text(job.requested_at),
        logs_url=where,
        metrics_url=f"/topics/{request.target}/metrics",
        job_details_url=where,
        state=job.state.value,
        cancelling=job.cancel_requested and job.state is JobState.RUNNING,
        waiting_for=NO_RUNNER if waits else None,
        progress=round(task.share, 3),
        ended_at=None if job.ended_at is None else _instant_text(job.ended_at),
        counts=OfflineCountsRead(
            written=done.written, bytes=done.size, refused=done.refused, gone=task.gone
        ),
        refusals=list(done.refusals),
        reason=job.reason,
    )


def _instant_text(moment: datetime) -> str:
    """Return the time in a form that Java's `Instant` can parse."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
