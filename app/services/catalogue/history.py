"""Start positions of new subscriptions: in the log, and in the archive for older messages.

A retransmission sends messages that are only in the archive. It is requested together with the
subscription, and ends where the subscription begins in the log. So each message is in exactly one
of the two parts.
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

# The worker id in a position that no worker has reported yet.
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """Where a new subscription starts in the log, and which older messages it gets in addition.

    `request` is the request for the messages that only the archive has, if there are any. `gone`
    counts offsets that may belong to the requested time, and are neither in the log nor in the
    archive.
    """

    begins: Mapping[Partition, int] = field(hash=False)
    # The ends of the partitions when the start was determined.
    ends: Mapping[Partition, int] = field(hash=False)
    request: Request | None = None
    gone: int = 0
    beginning: Beginning = Edge.LATEST

    def cursors(self, subscription: Subscription) -> Sequence[CursorStatus]:
        """Return the start positions, which are valid until a worker reports positions."""
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
    """The older messages that a new subscription gets from the archive, and how many are gone.

    `retransmission` sends the archived messages; None if there are none. The retransmission needs a
    Spark runner: `runner_live` tells whether one runs.
    """

    gone: int
    retransmission: Retransmission | None = None
    runner_live: bool = False


async def requested_history(
    session: Session, subscription: Subscription, opening: StartPlan
) -> History | None:
    """Request a retransmission of the messages that only the archive has, if there are any.

    Call this in the transaction that creates the subscription.

    Returns:
        None if the log has all messages from the requested start on.

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
    # Read the bounds again. Messages that retention has removed meanwhile belong to the archived
    # part.
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
    """Whether `at` is the start of a partition that has lost older messages.

    Messages of the requested time may be among them.
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
    """Return the scope of the job, which lists of jobs show.

    The scope's time is limited, as for other jobs.
    """
    return JobScope(
        start=max(request.since, request.until - WINDOW_MAX),
        end=request.until,
        topic=subscription.topic,
        subscription=subscription.name,
    )
