"""Keeps a cursor open for each active subscription in each owned partition, and no other cursors.

Subscriptions are known from changes, and partitions from ownership events. Every decision is made
in `_reconcile`, synchronously, from the known state. Slow work runs in separate tasks: finding a
start position, and waiting for requests to end. When such a task ends, it calls `_reconcile` again.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, Protocol, assert_never

import structlog

from app.domain import streams
from app.domain.catalogue.changes import NO_CHANGE, Changes
from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.commit import Progress
from app.domain.message import Partition
from app.log.interface import Assigned, Lost, Ownership, OwnershipEvent, Revoked
from workers.assignment.rate_sharing import OwnedSubscription, RateSharing
from workers.assignment.registry import Registry
from workers.assignment.retractions import Unsettled
from workers.assignment.start_positions import StartFinder, Wanted
from workers.consumer.commit.cursor import Cursor
from workers.consumer.subscription_consumers import CursorKey, SubscriptionConsumers, abandon

# How long requests in flight may take when their partition is revoked. This time, the time for the
# commit, and the time for the notes to other workers are together less than the time for which the
# log waits.
REQUEST_TIMEOUT: Final = timedelta(seconds=3)
# How long the commit of a revoked partition may take, after its requests in flight have ended.
COMMIT_TIMEOUT: Final = timedelta(seconds=1.5)
# How long the requests in flight, the commit and the notes for other workers may take together when
# a partition is revoked.
HANDOVER_TIMEOUT: Final = timedelta(seconds=4.8)
# How long requests in flight may take when the worker stops. The time is longer than for a revoked
# partition, because no other worker waits for the partitions yet.
LAST_REQUEST_TIMEOUT: Final = timedelta(seconds=15)
# How long the last commit may take when the worker stops, after its requests in flight have ended.
LAST_COMMIT_TIMEOUT: Final = timedelta(seconds=10)

_log = structlog.get_logger()


class StreamOwner(Protocol):
    """Reads Angelia's own streams."""

    def own(self, partitions: Collection[Partition]) -> None:
        """From now on, read these partitions of the streams, and no others."""

    def check(self) -> None:
        """Soon look whether the store has lost what it had stored, and then store it again."""


class Supervisor:
    """Opens and closes cursors. No other class does this."""

    def __init__(
        self,
        *,
        consumers: SubscriptionConsumers,
        starts: StartFinder,
        ownership: Ownership,
        rates: RateSharing,
        recorder: StreamOwner,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._consumers = consumers
        self._starts = starts
        self._ownership = ownership
        self._rates = rates
        self._recorder = recorder
        self._tasks = tasks
        self._opening: set[CursorKey] = set()
        self._closing: dict[CursorKey, Cursor] = {}
        # How often each partition was assigned to this worker. If a partition was assigned again
        # during a search for start positions, the positions that were found for it are outdated.
        self._terms: Counter[Partition] = Counter()
        self._closed = asyncio.Event()
        self._stopping = False
        self.registry = Registry()
        self.owned: set[Partition] = set()

    @property
    def closing(self) -> Collection[CursorKey]:
        """The cursors that are closing. Their last commits are still missing."""
        return self._closing.keys()

    async def run(self) -> None:
        """Act on ownership events until cancelled."""
        async for event in self._ownership.events():
            self._on_ownership(event)

    def apply(self, changes: Changes) -> None:
        """Apply the changes. Then no request starts any more for an inactive subscription."""
        topics = set(self.registry.topics)
        changes = self.registry.with_deletions(changes)
        is_of_another_server = changes.is_complete and self.registry.last != NO_CHANGE
        self.registry.apply(changes)
        self._consumers.reader.formats.apply(changes)
        if set(self.registry.topics) != topics or not topics:
            self._ownership.subscribe(streams.OWN | self.registry.topics.keys())
        for subscription in changes.subscriptions:
            self._close_to_begin_anew(subscription)
            self._consumers.configure(subscription)
            if subscription.locked:
                _log.error("locked", subscription=subscription.group, reason=subscription.locked)
        if is_of_another_server:
            # Another server of the database may lack the last reports and records.
            self._consumers.report_all()
            self._recorder.check()
        self._reconcile()

    async def stop(self) -> list[tuple[CursorKey, Cursor]]:
        """Let requests in flight end, and commit all positions. Return the closed cursors."""
        self._stopping = True
        self._recorder.own(())
        # Lend no tickets from now on, because other workers may get this worker's partitions.
        self._rates.hold(())
        self._finish_soon(list(self._consumers.keys()), LAST_REQUEST_TIMEOUT, LAST_COMMIT_TIMEOUT)
        closed = list(self._closing.items())
        await self._until_closed(self._closing.keys(), LAST_REQUEST_TIMEOUT + LAST_COMMIT_TIMEOUT)
        return closed

    # ---- ownership of partitions ----------------------------------------------------------------

    def _on_ownership(self, event: OwnershipEvent) -> None:
        _log.info("ownership_changed", to=type(event).__name__, partitions=len(event.partitions))
        match event:
            case Assigned():
                self.owned |= event.partitions
                self._rates.assigned(event.partitions)
                self._terms.update(event.partitions)
                self._reconcile()
            case Revoked():
                self._disown(event.partitions)
                self._reconcile()
                self._tasks.create_task(self._hand_over(event))
            case Lost():
                self._disown(event.partitions)
                abandon(self._consumers.halt(self._open_in(event.partitions)))
                self._abandon_closing(event.partitions)
                self._reconcile()
            case _:
                assert_never(event)

    def _disown(self, partitions: Collection[Partition]) -> None:
        self.owned -= set(partitions)
        self._rates.gone(partitions)

    async def _hand_over(self, event: Revoked) -> None:
        # Limit the time for closing cursors, because another worker waits for the partitions. A
        # cursor that closes because of a suspension may take longer than that.
        over_at = asyncio.get_running_loop().time() + HANDOVER_TIMEOUT.total_seconds()
        closing = {key for key in self._closing if key.partition in event.partitions}
        if not await self._until_closed(closing, REQUEST_TIMEOUT + COMMIT_TIMEOUT):
            self._abandon_closing(event.partitions)
        await self._until_loans_settled(over_at)
        # Release the partition only now. All requests in flight have ended, and all positions are
        # committed or abandoned. The next owner can also read which tickets were lent.
        event.release()

    def _open_in(self, partitions: Collection[Partition]) -> list[CursorKey]:
        return [key for key, _ in self._consumers.cursors() if key.partition in partitions]

    # ---- opening and closing what is needed -----------------------------------------------------

    def _reconcile(self) -> None:
        if self._stopping:
            return
        self._recorder.own([p for p in self.owned if p.topic in streams.OWN])
        wanted = self.registry.wanted(self.owned)
        self._close(self._consumers.keys() - wanted)
        self._open(wanted - self._consumers.keys() - self._opening - self._closing.keys())
        self._share({key.subscription_id for key in wanted})

    def _close(self, keys: Collection[CursorKey]) -> None:
        deleted = [key for key in keys if self.registry.get(key.subscription_id) is None]
        # Abandon the cursors of deleted subscriptions. Their positions are useless, and a new
        # subscription may already have the same name.
        abandon(self._consumers.halt(deleted))
        self._abandon_deleted()
        self._consumers.forget_deleted(lambda known: self.registry.get(known) is not None)
        kept = set(keys) - set(deleted)
        gone = [key for key in kept if key.partition not in self.owned]
        self._finish_soon(gone, REQUEST_TIMEOUT, COMMIT_TIMEOUT)
        for subscription, suspended in self._suspended(kept).items():
            self._finish_soon(suspended, closing_timeout(subscription.policy))

    def _close_to_begin_anew(self, subscription: Subscription) -> None:
        """Close the cursors of a subscription that was moved, or that turns batches on or off.

        The cursors are opened again when nothing is in flight. Messages that were collected for a
        batch, or that waited for a retry, are read again then.
        """
        current = self._consumers.current(subscription.id)
        if current is not None and _begins(current) != _begins(subscription):
            keys = [k for k, _ in self._consumers.cursors() if k.subscription_id == subscription.id]
            self._finish_soon(keys, closing_timeout(current.policy))

    def _suspended(self, keys: Collection[CursorKey]) -> dict[Subscription, list[CursorKey]]:
        """Return the cursors in partitions that this worker still owns, by subscription.

        `keys` are cursors that are closed because their subscription was suspended.
        """
        found: dict[Subscription, list[CursorKey]] = {}
        for key in keys:
            subscription = self.registry.get(key.subscription_id)
            if subscription is not None and key.partition in self.owned:
                found.setdefault(subscription, []).append(key)
        return found

    def _finish_soon(
        self,
        keys: Collection[CursorKey],
        request_timeout: timedelta,
        commit_timeout: timedelta | None = None,
    ) -> None:
        """Close these cursors in a task: let requests in flight end, then commit the positions.

        If `commit_timeout` is None, this worker stays the owner of the partitions. Then the last
        commit is repeated until it succeeds, or until another worker gets the partition. If the
        commit were lost, its counts of deliveries would be missing in the reports.
        """
        if keys:
            halted = self._consumers.halt(keys)
            cursors = dict(zip(keys, (cursor for _, cursor in halted), strict=True))
            self._closing.update(cursors)
            finished = self._consumers.finish(
                halted, request_timeout=request_timeout, commit_timeout=commit_timeout
            )
            self._tasks.create_task(self._finish(cursors, finished))

    async def _finish(
        self,
        cursors: Mapping[CursorKey, Cursor],
        finished: Awaitable[None],
    ) -> None:
        await finished
        for key, cursor in cursors.items():
            del self._closing[key]
            if key.partition in self.owned:  # otherwise another owner reports its position
                self._consumers.report_later(key, cursor)
        self._closed.set()
        self._closed.clear()
        self._reconcile()

    async def _until_loans_settled(self, over_at: float) -> None:
        try:
            async with asyncio.timeout_at(over_at):
                await self._rates.settled()
        except TimeoutError:
            _log.warning("rate_loans_not_settled")

    async def _until_closed(self, keys: Collection[CursorKey], within: timedelta) -> bool:
        waited_for = frozenset(keys)
        try:
            async with asyncio.timeout(within.total_seconds()):
                while self._closing.keys() & waited_for:
                    await self._closed.wait()
        except TimeoutError:
            return False
        return True

    def _abandon_deleted(self) -> None:
        for key, cursor in self._closing.items():
            if self.registry.get(key.subscription_id) is None:
                cursor.abandon()

    def _abandon_closing(self, partitions: Collection[Partition]) -> None:
        for key, cursor in self._closing.items():
            if key.partition in partitions:
                cursor.abandon()

    # ---- opening cursors ------------------------------------------------------------------------

    def _open(self, keys: Collection[CursorKey]) -> None:
        wanted = [
            (subscription, key.partition)
            for key in keys
            if (subscription := self.registry.get(key.subscription_id)) is not None
        ]
        if wanted:
            self._opening.update(keys)
            self._tasks.create_task(self._start(wanted))

    async def _start(self, wanted: Collection[Wanted]) -> None:
        terms = self._terms.copy()
        found = await self._starts.committed(wanted)
        known = found.settled.keys() | found.unsettled.keys()
        missing: dict[Subscription, list[Partition]] = {}
        for subscription, partition in wanted:
            if (subscription, partition) not in known:
                missing.setdefault(subscription, []).append(partition)
        # Start the cursors in separate tasks, because the database or a stream may be down. Then
        # only subscriptions that need the database or the stream must wait.
        for subscription, partitions in missing.items():
            self._tasks.create_task(self._start_from_copy(subscription, partitions, terms))
        if found.unsettled:
            self._tasks.create_task(self._start_settled(found.unsettled, terms))
        self._started(found.settled, terms)

    def _still_owns(self, partition: Partition, terms: Mapping[Partition, int]) -> bool:
        """Whether this worker has owned the partition without a break since `terms` was copied."""
        return partition in self.owned and terms[partition] == self._terms[partition]

    async def _start_settled(
        self, unsettled: Mapping[Wanted, Unsettled], terms: Counter[Partition]
    ) -> None:
        # Retract nothing for a partition that this worker has lost since it read the partition's
        # commit. The commit may be from the next owner, whose discards are valid.
        mine = [each for each in unsettled.values() if self._still_owns(each.partition, terms)]
        if mine:
            await self._starts.settle(mine)
        # Start the cursors only after their retractions are stored. So all later records of these
        # cursors come after the retractions.
        self._started({key: each.start for key, each in unsettled.items()}, terms)

    async def _start_from_copy(
        self,
        subscription: Subscription,
        partitions: Collection[Partition],
        terms: Counter[Partition],
    ) -> None:
        found = await self._starts.copied(subscription, partitions)
        if found is None:
            # Start nothing, because the subscription is deleted. This worker has not read this
            # change yet.
            self._opening -= {CursorKey(subscription.id, each) for each in partitions}
            return
        self._started(found, terms)

    def _started(self, found: Mapping[Wanted, Progress], terms: Counter[Partition]) -> None:
        """Open the cursors that are still needed, after their start positions were found.

        Much may have changed since the search for start positions began. `found` has the start
        positions. `terms` says how often each partition had been assigned to this worker when the
        search began.
        """
        keys = {
            CursorKey(sub.id, partition): progress for (sub, partition), progress in found.items()
        }
        self._opening -= keys.keys()
        if self._stopping:
            return
        requested = {CursorKey(sub.id, partition): sub for sub, partition in found}
        wanted = self.registry.wanted(self.owned) - self._consumers.keys() - self._closing.keys()
        opened: dict[Partition, list[tuple[Subscription, Progress]]] = {}
        for key in wanted & keys.keys():
            subscription = self.registry.get(key.subscription_id)
            if subscription is None or subscription.seek != requested[key].seek:
                continue  # skip a cursor that was moved meanwhile
            if self._still_owns(key.partition, terms):
                opened.setdefault(key.partition, []).append((subscription, keys[key]))
        self._consumers.open(opened)
        self._reconcile()

    def _share(self, subscription_ids: Collection[str]) -> None:
        owned = by_topic(self.owned)
        held = []
        for subscription_id in subscription_ids:
            subscription = self.registry.get(subscription_id)
            topic = self.registry.topics.get(subscription.topic) if subscription else None
            if subscription and topic:
                held.append(OwnedSubscription(subscription, topic, owned[topic.name]))
        self._rates.hold(held)


def by_topic(owned: Iterable[Partition]) -> Mapping[str, frozenset[int]]:
    """Return the owned partitions by topic."""
    indexes: defaultdict[str, set[int]] = defaultdict(set)
    for partition in owned:
        indexes[partition.topic].add(partition.index)
    return {topic: frozenset(found) for topic, found in indexes.items()}


def _begins(subscription: Subscription) -> tuple[object, ...]:
    """Return the settings of a subscription that cannot change while its cursors are open."""
    return subscription.batching, subscription.seek


def closing_timeout(policy: DeliveryPolicy) -> timedelta:
    """Return how long requests in flight may take after a suspension: as long as they need.

    This worker stays the owner of the partition, and no other worker waits for the partition. So
    the results of these requests still count.
    """
    return policy.request_timeout + REQUEST_TIMEOUT
