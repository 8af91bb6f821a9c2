"""Retransmissions that are sent beside new messages: requests and progress."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Annotated, Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema, Text
from app.api.bodies.moments import MomentText
from app.api.management.fields.filters import FilterBody, filters_of
from app.api.management.insight.job_bodies import NO_RUNNER
from app.api.management.replay.retransmission_bodies import TopicNameRead
from app.api.management.replay.retransmission_fields import parsed, way_of
from app.domain.catalogue.subscription import RATE_MAX
from app.domain.errors import ValidationFailedError
from app.domain.replay.retransmission import (
    CHOSEN_MAX,
    RATE_MIN,
    SHARE_DEFAULT,
    SHARE_MIN,
    Only,
    Retransmission,
    RetransmissionState,
    Selection,
    messages_per_second,
)
from app.services.replay.retransmissions import RetransmissionsSeen

OnlyText = Literal["all", "undelivered", "missing"]
State = Literal["REQUESTED", "READING", "SENDING", "DONE", "CANCELLED", "FAILED"]
Offset = Annotated[int, Field(ge=0, le=2**62)]


class OffsetsBody(OwnSchema):
    """A range of messages of one partition, by offsets."""

    partition: int = Field(ge=0, le=100_000)
    offset: Offset = Field(description="the first")
    to_offset: Offset | None = Field(default=None, description="before which it ends; now")


class RetransmitBody(OwnSchema):
    """Which messages are sent again, beside new ones: those that match all given fields."""

    only: OnlyText = Field(description="all, undelivered (and not sent again since), missing")
    from_: MomentText | None = Field(
        default=None,
        alias="from",
        description="published (undelivered: discarded) since: RFC 3339, ms, or -30m, -6h, -2d",
    )
    to: MomentText | None = Field(default=None, description="end, exclusive; default: now")
    offsets: list[OffsetsBody] | None = Field(
        default=None, min_length=1, max_length=1_000, description="instead of from and to"
    )
    filter: FilterBody | None = Field(
        default=None, description="besides the filters of the subscription"
    )
    status_codes: list[Annotated[int, Field(ge=100, le=599)]] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="with undelivered: the subscriber's last answer",
    )
    reason: Text | None = Field(
        default=None, description="with undelivered: part of the reason of the discard"
    )
    message_ids: list[Text] | None = Field(default=None, min_length=1, max_length=CHOSEN_MAX)
    keys: list[Text] | None = Field(
        default=None, min_length=1, max_length=CHOSEN_MAX, description="Partition-Keys"
    )
    share: float = Field(default=SHARE_DEFAULT, ge=SHARE_MIN, le=1, description="of the rate")
    rate: float | None = Field(
        default=None, ge=RATE_MIN, le=RATE_MAX, description="messages per second, at most"
    )
    mode: Literal["replay"] = Field(default="replay", description="seek moves a subscription")
    dry_run: bool = Field(default=False, description="only say what would be sent")


class SpanRead(Schema):
    """The range of offsets that is read in one partition."""

    topic: TopicNameRead
    partition: int
    offset: int
    to_offset: int
    gone: int | None = Field(
        default=None,
        description="requested offsets that are in neither log nor archive",
    )


class CountsRead(Schema):
    """Counts of messages."""

    matched: int = Field(description="chosen")
    bytes: int = Field(description="of their bodies")
    archived: int = Field(description="of the chosen, from the archive: the log has them no more")
    gone: int = Field(description="requested offsets that are in neither log nor archive")
    untraced: int | None = Field(
        default=None,
        description="with `only` missing: requested offsets that were not checked, because they"
        " are older than the first trace",
    )
    written: int = Field(description="appended to the topic")
    finished: int = Field(description="of these, delivered or discarded or filtered out")
    delivered: int | None = Field(default=None, description="finished and not discarded")
    discarded: int | None = Field(default=None, description="discarded again")


class SampleRead(Schema):
    """A message that would be sent."""

    message_id: str
    partition: int
    offset: int
    timestamp: int = Field(description="of its publication or discard, ms since the epoch")
    size: int = Field(description="bytes of its body")


class RetransmissionRead(Schema):
    """The current state of a retransmission."""

    id: str = Field(description="id of the job, too, and in `Hermes-Retransmission` of requests")
    state: State
    waiting_for: str | None = Field(default=None, description="why nothing happens, if it waits")
    only: OnlyText
    from_: str = Field(alias="from")
    to: str
    share: float
    rate: float | None = None
    dry_run: bool
    offsets: list[SpanRead]
    counts: CountsRead
    eta_seconds: float | None = Field(
        default=None, description="until all are sent, at its share and rate"
    )
    messages: list[SampleRead] | None = Field(default=None, description="the first, in a dry run")
    requested_at: str
    ended_at: str | None = None
    reason: str | None = Field(default=None, description="why it FAILED")


def retransmit_body(body: JsonObject) -> RetransmitBody:
    """Return the request for a retransmission. No field is ignored.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    requested = parsed(RetransmitBody, body, way_of(body))
    if (requested.from_ is None) == (requested.offsets is None):
        raise ValidationFailedError.of("from", "must be given, or offsets, and not both")
    if requested.offsets is not None and requested.to is not None:
        raise ValidationFailedError.of("to", "belongs to from; offsets end with their toOffset")
    return requested


def selection_of(body: RetransmitBody) -> Selection:
    """Return the selection of messages.

    Raises:
        ValidationFailedError: A field is not valid.
    """
    return Selection(
        only=Only(body.only),
        statuses=tuple(body.status_codes or ()),
        message_ids=tuple(body.message_ids or ()),
        keys=tuple(body.keys or ()),
        reason=body.reason,
        filters=filters_of([body.filter] if body.filter else []),
    )


def offsets_of(body: RetransmitBody) -> Mapping[int, tuple[int, int | None]] | None:
    """Return the requested offsets by partition.

    Raises:
        ValidationFailedError: The offsets are not valid.
    """
    if body.offsets is None:
        return None
    found = {each.partition: (each.offset, each.to_offset) for each in body.offsets}
    if len(found) < len(body.offsets):
        raise ValidationFailedError.of("offsets", "must have each partition once")
    return found


def spans_read(item: Retransmission) -> list[JsonObject]:
    """Return the range of offsets that is read in each partition."""
    return [each.answered() for each in spans_of(item)]


def retransmissions_read(
    seen: RetransmissionsSeen, *, with_outcomes: bool = False
) -> list[RetransmissionRead]:
    """Return the retransmissions as they are in a response of the API."""
    return [_read(item, seen, with_outcomes=with_outcomes) for item in seen.items]


def _read(
    item: Retransmission, seen: RetransmissionsSeen, *, with_outcomes: bool
) -> RetransmissionRead:
    counts, request = item.counts, item.request
    waits = item.state is RetransmissionState.REQUESTED and not seen.runner_live
    described = {
        "id": item.id,
        "state": item.state.value,
        "waitingFor": NO_RUNNER if waits else None,
        "only": request.selection.only.value,
        "from": request.since.isoformat(),
        "to": request.until.isoformat(),
        "share": request.share,
        "rate": request.rate,
        "dryRun": request.dry_run,
        "offsets": spans_of(item),
        "counts": CountsRead(
            matched=counts.matched,
            bytes=counts.size,
            archived=counts.archived,
            gone=counts.gone,
            untraced=counts.untraced,
            written=counts.written,
            finished=counts.finished,
            delivered=counts.finished - counts.discarded if with_outcomes else None,
            discarded=counts.discarded if with_outcomes else None,
        ),
        "etaSeconds": _eta_seconds(item, seen.rate),
        "messages": [SampleRead.model_validate(each) for each in item.samples] or None,
        "requestedAt": item.requested_at.isoformat(),
        "endedAt": item.ended_at.isoformat() if item.ended_at else None,
        "reason": item.reason,
    }
    # The model gets one mapping, because its field `from` cannot be a keyword argument in Python.
    return RetransmissionRead.model_validate(described)


def _eta_seconds(item: Retransmission, rate: int) -> float | None:
    looked_at = item.request.dry_run and item.state is RetransmissionState.DONE
    if not looked_at and item.state is not RetransmissionState.SENDING:
        return None
    left, request = item.counts.matched - item.counts.finished, item.request
    return round(left / messages_per_second(rate, share=request.share, rate_max=request.rate), 1)


def spans_of(item: Retransmission) -> list[SpanRead]:
    """Return a retransmission's ranges of offsets, as parts of a response."""
    topic, request = TopicNameRead(value=item.topic), item.request
    return [
        SpanRead(
            topic=topic,
            partition=span.partition,
            offset=span.start,
            to_offset=span.end,
            gone=gone or None,
        )
        # A request can have fewer counts of gone offsets (`gone`) than ranges of offsets
        # (`spans`). There are no counts for `only: missing`, and none in requests that earlier
        # versions stored.
        for span, gone in zip_longest(request.spans, request.gone)
    ]
