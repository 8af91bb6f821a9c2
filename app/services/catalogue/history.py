"""Start positions of new subscriptions in the log, and the older messages from the archive.

A retransmission sends the messages that only the archive has. The retransmission is requested
together with the subscription, and ends at the offset where the subscription begins in the log. So
the subscription gets each message either from the archive or from the log.
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

# Stands for the worker's id in a start position, because no worker has reported this position.
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """Where a new subscription starts in the log, and which older messages it also gets.

    `request` asks for the messages that only the archive has; None if there are none. `gone` is a
    number of offsets: messages of the requested time may have been there, but neither the log nor
    the archive has these offsets any more.
    """

    begins: Mapping[Partition, int] = field(hash=False)
    # The ends of the partitions at the time when the start positions were read.
    ends: Mapping[Partition, int] = field(hash=False)
    request: Request | None = None
    gone: int = 0
    beginning: Beginning = Edge.LATEST

    def cursors(self, subscription: Subscription) -> Sequence[CursorStatus]:
        """Return the start positions as cursors. They are valid until a worker reports cursors."""
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
    """The older messages that a new subscription gets from the archive.

    `retransmission` sends the archived messages; None if there are none. A retransmission needs a
    Spark runner. `runner_live` tells whether a runner runs. `gone` is the number of requested
    offsets that neither the log nor the archive has any more.
    """

    gone: int
    retransmission: Retransmission | None = None
    runner_live: bool = False


async def requested_history(
    session: Session, subscription: Subscription, opening: StartPlan
) -> History | None:
    """Request a retransmission of the messages that only the archive has, if there are any.

    The caller must call this in the transaction that creates the subscription.

    Returns:
        None if the subscription needs nothing from the archive, and no requested offset is gone.

    Raises:
        JobQueueFullError: Too many jobs are waiting.
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
    """Return where a new subscription of that topic starts: an offset in each partition.

    Raises:
        TopicNotFoundError: The topic does not exist.
        LogUnavailableError: The log cannot be reached.
    """
    partitions = await log.partitions(topic)
    begins = await begun_at(log, partitions, beginning)
    if beginning is Edge.LATEST:
        return StartPlan(begins=begins, ends=begins)
    now = datetime.now(UTC)
    # Read the bounds of the partitions again. Retention may have removed messages from the log
    # meanwhile, and the subscription gets these messages from the archive.
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
    """Whether the offset `at` is the start of a partition that has lost older messages.

    Messages of the requested time may be among the lost messages.
    """
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
    """Return the scope of the job, which people see in lists of jobs.

    The time in the scope is cut to at most WINDOW_MAX, which is the limit for all jobs.
    """
    return JobScope(
        start=max(request.since, request.until - WINDOW_MAX),
        end=request.until,
        topic=subscription.topic,
        subscription=subscription.name,
    )
