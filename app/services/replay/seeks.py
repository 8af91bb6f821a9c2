"""Moves subscriptions to another position in all partitions of their topics."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.domain.access.audit import Action, Change
from app.domain.catalogue.seek import Seek
from app.domain.catalogue.subscription import Subscription
from app.domain.commit import parse_progress
from app.domain.errors import SubscriptionNotFoundError, ValidationFailedError
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.services.applied_changes import APPLIED_WITHIN, AppliedChanges
from app.services.log_positions import begun_at, bounds_of
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The new offset of a subscription in each partition of its topic.

    `applied` tells whether all workers have applied the move; None if nothing was moved (dry run).
    """

    topic: str
    offsets: Sequence[int]
    applied: bool | None = None


class SeekService:
    """Moves subscriptions to another position. Workers read the new position from the database.

    The subscription may be active or suspended, or may have no worker. Messages in flight are
    completed, and waiting retries are dropped.
    """

    def __init__(self, database: Database, log: MessageLog, applied: AppliedChanges) -> None:
        self._database = database
        self._log = log
        self._applied = applied

    async def seek(self, topic: str, name: str, *, to: datetime, dry_run: bool) -> Moved:
        """Let the subscription continue in each partition with the first message at or after `to`.

        In a partition without such a message, it continues with the next message that is published.
        With `dry_run`, or if an error is raised, nothing is moved.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            LogUnavailableError: The log cannot be reached.
        """
        known = await self._known(topic, name)
        partitions = await self._log.partitions(topic)
        found = await begun_at(self._log, partitions, to)
        offsets = [found[partition] for partition in partitions]
        return await self._go_on(known, partitions, offsets, dry_run=dry_run)

    async def seek_to(
        self, topic: str, name: str, *, offsets: Mapping[int, int], dry_run: bool
    ) -> Moved:
        """Let the subscription continue at these offsets, one for each partition.

        If the log does not have an offset, the nearest offset in the log is used. With `dry_run`,
        nothing is moved.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            LogUnavailableError: The log cannot be reached.
            ValidationFailedError: A value is not valid.
        """
        known = await self._known(topic, name)
        partitions = await self._log.partitions(topic)
        _require_all(offsets, partitions)
        bounds = await bounds_of(self._log, partitions)
        within = [
            min(max(offsets[each.index], bounds[each].start), bounds[each].end)
            for each in partitions
        ]
        return await self._go_on(known, partitions, within, dry_run=dry_run)

    async def _known(self, topic: str, name: str) -> Subscription:
        async with self._database.transaction() as session:
            return await SubscriptionRepository(session).get(topic, name)

    async def _go_on(
        self,
        known: Subscription,
        partitions: Collection[Partition],
        offsets: Sequence[int],
        *,
        dry_run: bool,
    ) -> Moved:
        topic = known.topic
        if dry_run:
            return Moved(topic=topic, offsets=offsets)
        replaced = await self._set_by_tools(known, partitions)
        change = await self._move(known, offsets, replaced)
        applied = await self._applied.wait(change, within=APPLIED_WITHIN)
        return Moved(topic=topic, offsets=offsets, applied=applied)

    async def _set_by_tools(
        self, subscription: Subscription, partitions: Collection[Partition]
    ) -> Mapping[int, int]:
        """Return the offsets, by partition, that external tools have committed.

        Workers write the number of the last move into each commit, but tools do not. So workers
        could not know whether a tool committed before or after this move. To tell them, the tools'
        commits from before the move are stored with the move.
        """
        found = await self._log.committed({subscription.group: partitions})
        return {
            partition.index: committed.offset
            for partition, committed in found.get(subscription.group, {}).items()
            if (progress := parse_progress(subscription.id, committed.offset, committed.metadata))
            and progress.seek is None
        }

    async def _move(
        self, known: Subscription, offsets: Sequence[int], replaced: Mapping[int, int]
    ) -> int:
        async with self._database.transaction() as session:
            # Take the lock of changes, so that the subscription does not change between reading and
            # writing.
            await ChangeFeed(session).next_number()
            subscriptions = SubscriptionRepository(session)
            current = await subscriptions.get(known.topic, known.name)
            if current.id != known.id:
                message = f"Subscription {known.name} of {known.topic} was replaced meanwhile"
                raise SubscriptionNotFoundError(message)
            now_ms = time.time_ns() // 1_000_000
            seek = Seek.after(current.seek, dict(enumerate(offsets)), replaced, now_ms=now_ms)
            event = Change(
                action=Action.MOVED,
                kind="subscription",
                name=f"{current.topic}/{current.name}",
                after={"offsets": list(offsets)},
            )
            await note(AuditRepository(session), event)
            if current.rests:
                # No worker reports the new position before the subscription is active again. Until
                # then, lag and forecast are computed from this copy of the position.
                await StatusRepository(session).move(current.id, current.topic, offsets)
            return (await subscriptions.update(replace(current, seek=seek))).change


def _require_all(offsets: Mapping[int, int], partitions: Collection[Partition]) -> None:
    """Check that `offsets` has an offset for each partition, and for no other.

    Raises:
        ValidationFailedError: A partition is missing, or does not exist.
    """
    there = {each.index for each in partitions}
    if unknown := sorted(offsets.keys() - there):
        raise ValidationFailedError.of("offsets", f"there is no partition {unknown[0]}")
    if left := sorted(there - offsets.keys()):
        message = f"must have each partition of the topic: there is none of partition {left[0]}"
        raise ValidationFailedError.of("offsets", message)
