"""Start positions of new subscriptions: in the log, and in the archive for earlier messages.

A retransmission sends the messages that only the archive has. It is requested together with the
subscription, and ends where the subscription begins in the log: no message is in both parts, and
none between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from app.domain.catalogue.start_position import Beginning, Edge
from app.domain.catalogue.subscription import Subscription
from app.domain.job import WINDOW_MAX, JobScope
from app.domain.message import Partition
from app.domain.replay.coverage import Stretch, reach
from app.domain.replay.retransmission import OffsetSpan, Request, Retransmission
from app.domain.status import CursorStatus
from app.log.interface import Bounds, MessageLog
from app.services.log_positions import begun_at, bounds_of
from app.services.replay.retransmission_changes import RetransmissionChanges
from app.services.replay.spans import (
    ArchivedOffsets,
    FoundSpans,
    WantedSpans,
    archived,
    before_log,
    found_spans,
)
from app.storage.database import Database, Session
from app.storage.insight.spark_runners import SparkRunnerRepository

# An empty worker id.
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """The start of a new subscription in the log, and what may have been before it.

    `request` is for the archived part, if any. `gone` counts offsets that may belong to the
    requested time and are in neither.
    """

    begins: Mapping[Partition, int] = field(hash=False)
    # Of the partitions at that time.
    ends: Mapping[Partition, int] = field(hash=False)
    request: Request | None = None
    gone: int = 0
    beginning: Beginning = Edge.LATEST

    def cursors(self, subscription: Subscription) -> Sequence[CursorStatus]:
        """Return its cursors before any worker has reported them."""
        return [
            CursorStatus(
                subscription_id=subscription.id,
                topic=partition.topic,
                partition=partition.index,
                worker_id=_NOBODY,
                offset=offset,
                end=self.ends[partition],
                delivered=0,
                discarded=0,
                volume=0,
            )
            for partition, offset in self.begins.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a new subscription gets from before the log, and how much is missing.

    `retransmission` sends the archived part; None if there is none. It waits for a Spark runner.
    """

    gone: int
    retransmission: Retransmission | None = None
    runner_live: bool = False


async def requested_history(
    session: Session, subscription: Subscription, opening: StartPlan
) -> History | None:
    """Request the archived part in the transaction that creates the subscription.

    Returns:
        None if the log has everything.

    Raises:
        JobQueueFullError: Too many jobs wait.
    """
    if opening.request is None:
        return History(gone=opening.gone) if opening.gone else None
    scope = _scope(subscription, opening.request)
    requested = await RetransmissionChanges(session).request(subscription, opening.request, scope)
    live = await SparkRunnerRepository(session).any_live()
    return History(gone=opening.gone, retransmission=requested, runner_live=live)


async def opened(
    database: Database, log: MessageLog, *, topic: str, beginning: Beginning
) -> StartPlan:
    """Return where a subscription of that topic begins.

    Raises:
        TopicNotFoundError: The topic does not exist.
        LogUnavailableError: The log cannot be reached.
    """
    partitions = await log.partitions(topic)
    begins = await begun_at(log, partitions, beginning)
    if beginning is Edge.LATEST:
        return StartPlan(begins=begins, ends=begins)
    now = datetime.now(UTC)
    # Read again: messages that retention removed meanwhile are before the log, so they belong to
    # the archived part.
    bounds = await bounds_of(log, partitions)
    begins = {each: max(at, bounds[each].start) for each, at in begins.items()}
    ends = {each: bounds[each].end for each in begins}
    opening = StartPlan(begins=begins, ends=ends, beginning=beginning)
    if not isinstance(beginning, datetime) or beginning >= now:
        return opening
    if not any(_is_cut(at, bounds[each]) for each, at in begins.items()):
        return opening
    wanted = WantedSpans(since=beginning)
    archive = await archived(database, topic, wanted.times)
    starts = {each.index: bound.start for each, bound in bounds.items()}
    spans = [
        before_log(_until(each, begins[each]), wanted, starts=starts, archive=archive)
        for each in sorted(begins)
    ]
    found = found_spans(spans, starts=starts, archive=archive)
    gone = sum(_gone(span, archive, log_start=starts[span.partition]) for span in spans)
    log_ends = tuple(bounds[each].end for each in sorted(bounds))
    return replace(opening, request=_request(wanted, found, now=now, ends=log_ends), gone=gone)


def _is_cut(at: int, bounds: Bounds) -> bool:
    """Whether messages before that position may be of the same time, and are not in the log."""
    return at == bounds.start > 0


def _until(partition: Partition, offset: int) -> OffsetSpan:
    return OffsetSpan(topic=partition.topic, partition=partition.index, start=offset, end=offset)


def _gone(span: OffsetSpan, archive: ArchivedOffsets, *, log_start: int) -> int:
    kept = archive.kept.get(span.partition, ())
    return reach(Stretch(span.start, span.end), log_start=log_start, kept=kept).gone


def _request(
    wanted: WantedSpans, found: FoundSpans, *, now: datetime, ends: tuple[int, ...]
) -> Request | None:
    if wanted.since is None or all(span.start == span.end for span in found.spans):
        return None
    return Request(
        since=wanted.since,
        until=now,
        spans=tuple(found.spans),
        ends=ends,
        gone=tuple(found.gone),
        times=wanted.times,
    )


def _scope(subscription: Subscription, request: Request) -> JobScope:
    """Return the scope for lists of jobs. It goes back no further than those of other jobs."""
    return JobScope(
        start=max(request.since, request.until - WINDOW_MAX),
        end=request.until,
        topic=subscription.topic,
        subscription=subscription.name,
    )
