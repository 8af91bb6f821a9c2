"""Simulations in requests and responses."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema, parse_own
from app.api.bodies.moments import MomentText, moment_of
from app.api.management.fields.filters import FilterBody, filters_of
from app.api.management.insight.job_bodies import NO_RUNNER, State
from app.domain.catalogue.filters import FILTERS_MAX
from app.domain.catalogue.subscription import IN_FLIGHT_MAX, RATE_MAX
from app.domain.insight.simulation import ID_SHOWN_MAX, Differing, Minute
from app.domain.job import Job, JobState
from app.domain.replay.retransmission import SAMPLES_MAX
from app.services.insight.simulations import SimulationSeen, WantedSimulation

WINDOW_DEFAULT: Final = timedelta(days=1)


class SimulateBody(OwnSchema):
    """What to try on published messages. Missing fields have the subscription's values."""

    from_: MomentText | None = Field(
        default=None,
        alias="from",
        description="published since: RFC 3339, ms, or -30m, -6h, -2d; a day before `to`, a week"
        " at most",
    )
    to: MomentText | None = Field(default=None, description="end, exclusive; default: now")
    filters: list[FilterBody] | None = Field(default=None, max_length=FILTERS_MAX)
    rate: int | None = Field(default=None, ge=1, le=RATE_MAX, description="messages a second")
    inflight_size: int | None = Field(
        default=None, ge=1, le=IN_FLIGHT_MAX, description="requests at a time"
    )
    request_millis: int | None = Field(
        default=None,
        ge=1,
        le=600_000,
        description="how long a request takes; if absent, only the rate is a limit",
    )


class SimulatedMinuteRead(Schema):
    """The messages that would have arrived and waited in a minute."""

    minute: str
    read: int = Field(description="published")
    matched: int = Field(description="matched by the tried filters")
    now: int = Field(description="matched by the current filters")
    bytes: int = Field(description="of the bodies that are matched")
    peak_per_second: int
    backlog: float = Field(description="most messages that waited at a time")


class DifferingRead(Schema):
    """A message that only the proposed filters, or only the current filters, would send."""

    message_id: str = Field(description=f"its first {ID_SHOWN_MAX} characters")
    partition: int
    offset: int
    timestamp: int = Field(description="of its publication, ms since the epoch")
    size: int = Field(description="bytes of its body")


class SimulatedRead(Schema):
    """The results for the whole time span."""

    read: int
    matched: int
    now: int
    added: int = Field(description="matched by the tried filters only")
    dropped: int = Field(description="matched by the current filters only")
    bytes: int
    peak_per_second: int
    backlog: int = Field(description="most messages that waited at a time")
    delay_millis: int = Field(description="wait of the last message of `backlog`")
    backlog_at: str | None = Field(default=None, description="time of `backlog`")
    drained_at: str | None = Field(default=None, description="when no message waited any more")
    left: int = Field(description="messages that waited at the end")
    gone: int = Field(description="requested offsets that are in neither log nor archive")


class SimulationRead(Schema):
    """The current state of a simulation; `result` is set when it is DONE."""

    id: str = Field(description="also of its job")
    state: State
    waiting_for: str | None = Field(default=None, description="why nothing happens, if it waits")
    from_: str = Field(alias="from")
    to: str
    filters: list[FilterBody]
    rate: int
    inflight_size: int
    request_millis: float | None = None
    capacity: float = Field(description="messages a second that were sent at most")
    result: SimulatedRead | None = None
    minutes: list[SimulatedMinuteRead] = Field(
        description="those in which most waited, then most came, in their order"
    )
    added_messages: list[DifferingRead] = Field(
        description=f"those with the lowest offsets of what is `added`, at most {SAMPLES_MAX}"
    )
    dropped_messages: list[DifferingRead] = Field(description="the same of what is `dropped`")
    output: str | None = Field(default=None, description="where all minutes are, in Parquet")
    reason: str | None = Field(default=None, description="why it FAILED")


def wanted_of(body: JsonObject, *, now: datetime) -> WantedSimulation:
    """Return the simulation that a request describes.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    requested = parse_own(SimulateBody, body)
    until = now if requested.to is None else moment_of(requested.to, now=now, path="to")
    since = until - WINDOW_DEFAULT
    if requested.from_ is not None:
        since = moment_of(requested.from_, now=now, path="from")
    took = requested.request_millis
    return WantedSimulation(
        since=since,
        until=until,
        filters=None if requested.filters is None else filters_of(requested.filters),
        rate=requested.rate,
        in_flight_max=requested.inflight_size,
        request_time=None if took is None else timedelta(milliseconds=took),
    )


def simulation_read(seen: SimulationSeen) -> SimulationRead:
    """Return the response for a simulation."""
    job, request = seen.job, seen.request
    proposal, waits = request.proposal, job.state is JobState.REQUESTED and not seen.runner_live
    took = proposal.request_time
    # The model gets one mapping, because its field `from` cannot be a keyword argument in Python.
    return SimulationRead.model_validate(
        {
            "id": job.id,
            "state": job.state.value,
            "waitingFor": NO_RUNNER if waits else None,
            "from": request.since.isoformat(),
            "to": request.until.isoformat(),
            "filters": [FilterBody.of(each) for each in proposal.filters],
            "rate": proposal.rate,
            "inflightSize": proposal.in_flight_max,
            "requestMillis": None if took is None else took / timedelta(milliseconds=1),
            "capacity": round(proposal.capacity, 3),
            "result": _result(job),
            "minutes": [_minute(each) for each in seen.minutes],
            "addedMessages": [_differing(each) for each in seen.samples if each.is_added],
            "droppedMessages": [_differing(each) for each in seen.samples if not each.is_added],
            "output": job.result.output,
            "reason": job.reason,
        }
    )


def _result(job: Job) -> SimulatedRead | None:
    if job.state is not JobState.DONE:
        return None
    counts = job.result.counts
    return SimulatedRead(
        read=counts["read"],
        matched=counts["matched"],
        now=counts["matched"] - counts["added"] + counts["dropped"],
        added=counts["added"],
        dropped=counts["dropped"],
        bytes=counts["bytes"],
        peak_per_second=counts["peakPerSecond"],
        backlog=counts["backlog"],
        delay_millis=counts["delayMs"],
        backlog_at=_time(counts, "backlogAtMs"),
        drained_at=_time(counts, "drainedAtMs"),
        left=counts["left"],
        gone=counts["gone"],
    )


def _time(counts: Mapping[str, int], name: str) -> str | None:
    found = counts.get(name)
    return None if found is None else datetime.fromtimestamp(found / 1_000, UTC).isoformat()


def _minute(each: Minute) -> dict[str, Any]:
    return {
        "minute": each.at.astimezone(UTC).isoformat(),
        "read": each.read,
        "matched": each.matched,
        "now": each.present,
        "bytes": each.size,
        "peakPerSecond": each.peak,
        "backlog": round(each.backlog, 3),
    }


def _differing(each: Differing) -> dict[str, Any]:
    return {
        "messageId": each.message_id,
        "partition": each.partition,
        "offset": each.offset,
        "timestamp": each.timestamp_ms,
        "size": each.size,
    }
