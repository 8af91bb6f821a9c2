"""Retransmissions: requests, states, cancellation.

Spark chooses the messages, and workers send them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import parse_progress
from app.domain.errors import JobEndedError, ValidationFailedError
from app.domain.job import JobScope
from app.domain.message import Partition
from app.domain.replay.retransmission import (
    ENDED,
    OffsetSpan,
    Only,
    Request,
    Retransmission,
    RetransmissionState,
    Selection,
    dropping,
)
from app.domain.trace import TrackingMode
from app.log.interface import Bounds, MessageLog
from app.services.applied_changes import APPLIED_WITHIN, AppliedChanges
from app.services.filtered_headers import require_filter_headers
from app.services.log_positions import bounds_of
from app.services.replay.retransmission_changes import RetransmissionChanges
from app.services.replay.spans import (
    ArchivedOffsets,
    FoundSpans,
    WantedSpans,
    archived,
    before_log,
    found_spans,
    spans_in_log,
)
from app.services.stream_ends import stream_spans
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.replay.retransmissions import RetransmissionRepository

_MOMENT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmissionsSeen:
    """A list of retransmissions of one subscription, and the rate limit of this subscription.

    `runner_live` tells whether a Spark runner runs, which retransmissions need.
    """

    items: Sequence[Retransmission]
    runner_live: bool
    rate: int


class RetransmissionService:
    """Requests, reads and cancels retransmissions; each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog, applied: AppliedChanges) -> None:
        self._database = database
        self._log = log
        self._applied = applied

    async def request(self, topic: str, name: str, wanted: WantedSpans) -> RetransmissionsSeen:
        """Request a retransmission of messages that the log or the archive has now.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: A value is not valid.
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            chosen_by = wanted.selection.filters
            await require_filter_headers(chosen_by, topic, TopicRepository(session))
        _require_traces(subscription, wanted.selection)
        request = await self._fixed(subscription, wanted)
        scope = JobScope(start=request.since, end=request.until, topic=topic, subscription=name)
        async with self._database.transaction() as session:
            changes = RetransmissionChanges(session)
            retransmission = await changes.request(subscription, request, scope)
            live = await SparkRunnerRepository(session).any_live()
        rate = subscription.policy.rate
        return RetransmissionsSeen(items=[retransmission], runner_live=live, rate=rate)

    async def newest(
        self, topic: str, name: str, *, limit: int, after: str | None = None
    ) -> RetransmissionsSeen:
        """Return the newest retransmissions of the subscription.

        With `after`, return only retransmissions that are older than the one with this id.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: No retransmission has the id `after`.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            found = await RetransmissionRepository(session).newest(
                subscription.id, limit=limit, after=after
            )
            live = await SparkRunnerRepository(session).any_live()
        return RetransmissionsSeen(items=found, runner_live=live, rate=subscription.policy.rate)

    async def get(self, topic: str, name: str, retransmission_id: str) -> RetransmissionsSeen:
        """Return one retransmission.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            RetransmissionNotFoundError: The retransmission does not exist.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            found = await RetransmissionRepository(session).get(subscription.id, retransmission_id)
            live = await SparkRunnerRepository(session).any_live()
        return RetransmissionsSeen(items=[found], runner_live=live, rate=subscription.policy.rate)

    async def cancel(self, topic: str, name: str, retransmission_id: str) -> RetransmissionsSeen:
        """Cancel the retransmission, and wait until the workers have applied this.

        Messages that are not sent yet will not be sent. A second cancellation changes nothing. The
        wait ends after APPLIED_WITHIN at the latest.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            RetransmissionNotFoundError: The retransmission does not exist.
            JobEndedError: The job has already ended.
        """
        number = None
        async with self._database.transaction() as session:
            # Take the lock of changes before any row is locked. All changes of subscriptions have
            # this order, so they cannot cause a deadlock.
            await ChangeFeed(session).hold()
            subscriptions = SubscriptionRepository(session)
            subscription = await subscriptions.get(topic, name)
            found = await RetransmissionRepository(session).get(subscription.id, retransmission_id)
            if found.state in ENDED - {RetransmissionState.CANCELLED}:
                raise JobEndedError(f"Retransmission {retransmission_id} is {found.state} already")
            if await RetransmissionChanges(session).cancel(found):
                dropped = dropping(subscription.dropped, retransmission_id)
                changed = await subscriptions.set_dropped(replace(subscription, dropped=dropped))
                number = changed.change
        if number is not None:
            await self._applied.wait(number, within=APPLIED_WITHIN)
        return await self.get(topic, name, retransmission_id)

    async def _fixed(self, subscription: Subscription, wanted: WantedSpans) -> Request:
        """Return the request with fixed offsets, so that later messages are not included."""
        only = wanted.selection.only
        partitions = await self._log.partitions(subscription.topic)
        until = wanted.until or datetime.now(UTC)
        bounds = await bounds_of(self._log, partitions)
        spans, gone = await self._spans(subscription, bounds, wanted)
        streams = () if only is Only.ALL else await stream_spans(self._log)
        return Request(
            since=wanted.since or min(subscription.created_at or until, until - _MOMENT),
            until=until,
            spans=tuple(spans),
            selection=wanted.selection,
            share=wanted.share,
            rate=wanted.rate,
            dry_run=wanted.dry_run,
            streams=tuple(streams),
            ends=tuple(bounds[each].end for each in partitions),
            gone=tuple(gone),
            times=wanted.times,
        )

    async def _spans(
        self, subscription: Subscription, bounds: Mapping[Partition, Bounds], wanted: WantedSpans
    ) -> FoundSpans:
        """Return the requested range of offsets in each partition.

        A range begins at its first offset that the log or the archive still has.
        """
        only = wanted.selection.only
        spans = await spans_in_log(self._log, bounds, wanted)
        # Read the bounds of the partitions again. Retention may have removed messages from the log
        # meanwhile.
        bounds = await bounds_of(self._log, list(bounds))
        starts = {each.index: bound.start for each, bound in bounds.items()}
        archive = ArchivedOffsets()
        # Read the offsets of the archive only if the log has lost messages. A retransmission of
        # discards does not need the archive either, because discards have stored copies.
        if only is not Only.UNDELIVERED and any(starts.values()):
            archive = await archived(self._database, subscription.topic, wanted.times)
            spans = [before_log(each, wanted, starts=starts, archive=archive) for each in spans]
        if only is Only.MISSING:
            # Do not count here how many offsets are gone. For missing messages, this can be counted
            # only later, when it is known how far back the traces go.
            return FoundSpans(await self._passed(subscription, sorted(bounds), spans), ())
        return found_spans(spans, starts=starts, archive=archive)

    async def _passed(
        self,
        subscription: Subscription,
        partitions: Collection[Partition],
        spans: Sequence[OffsetSpan],
    ) -> list[OffsetSpan]:
        """Return the ranges, cut to the messages that the subscription has already passed."""
        found = await self._log.committed({subscription.group: partitions})
        at = {}
        for partition, committed in found.get(subscription.group, {}).items():
            progress = parse_progress(subscription.id, committed.offset, committed.metadata)
            at[partition.index] = 0 if progress is None else progress.offset
        first = subscription.start
        return [
            replace(span, start=start, end=max(start, min(span.end, at.get(span.partition, 0))))
            for span in spans
            for start in [max(span.start, first.get(span.partition, 0))]
        ]


def _require_traces(subscription: Subscription, selection: Selection) -> None:
    if selection.only is Only.MISSING and subscription.tracking is not TrackingMode.ALL:
        message = (
            "must be all or undelivered: which messages are missing is known while the"
            f" subscription's trackingMode is {TrackingMode.ALL}"
        )
        raise ValidationFailedError.of("only", message)
