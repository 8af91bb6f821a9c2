"""All consumers of a worker, one for each subscription. Opens and closes their cursors."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, KeysView, Mapping
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.message import Partition
from app.filtering.bodies import ParsedBodies
from app.tracing.buffer import TraceBuffer
from workers.consumer.commit.committer import Committer
from workers.consumer.commit.cursor import Cursor
from workers.consumer.commit.receipts import Receipts
from workers.consumer.configuration_retries import ConfigurationRetries
from workers.consumer.endpoint import BrokenEndpoint, Endpoint
from workers.consumer.loop_budget import FILTER_SECONDS_PER_TURN, FILTERS_PER_TURN, LoopBudget
from workers.consumer.outcome.dead_letters import DeadLetters
from workers.consumer.outcome.undelivered import UndeliveredLog
from workers.consumer.schedule.suspension import Suspensions
from workers.consumer.source.cancelled_messages import CancelledMessages, SentMarks
from workers.consumer.subscription_consumer import SubscriptionConsumer
from workers.delivery.circuits import Circuits
from workers.delivery.share import Demand, Share
from workers.delivery.stall_watchdog import StallWatchdog
from workers.reading.reader import Reader

# The maximum number of idle consumers that are kept. An idle consumer is kept for its state, most
# of which is outdated after a second.
RESTING_MAX: Final = 1_000
# How many of these may belong to deleted subscriptions. Such a consumer is needed again if the
# database fails over to a replica that lacks the deletion.
DELETED_MAX: Final = 20


class CursorKey(NamedTuple):
    """Identifies a cursor by the id of its subscription's incarnation, and by its partition."""

    subscription_id: str
    partition: Partition


class Endpoints(Protocol):
    """Creates the endpoints to which consumers send."""

    def destination(self, subscription: Subscription) -> Endpoint:
        """Return the endpoint of the subscription."""


class SubscriptionConsumers:
    """Owns the consumers and their cursors. A consumer without cursors is idle."""

    def __init__(  # noqa: PLR0913 - the parts that all consumers share
        self,
        *,
        endpoints: Endpoints,
        reader: Reader,
        committer: Committer,
        undelivered: UndeliveredLog,
        dead_letters: DeadLetters,
        suspensions: Suspensions,
        marks: SentMarks,
        receipts: Receipts,
        traces: TraceBuffer,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._endpoints = endpoints
        self.reader = reader
        self._committer = committer
        self._receipts = receipts
        self._consumers: dict[str, SubscriptionConsumer] = {}
        # Consumers without cursors, in the order in which they became idle. When such a consumer
        # gets cursors again, it still knows what it sent in the last second, and the deferral of
        # its subscriber.
        self._resting: OrderedDict[str, SubscriptionConsumer] = OrderedDict()
        self._cursors: dict[CursorKey, Cursor] = {}
        # Closed cursors whose last position is not reported yet: at most one cursor for each key.
        self._to_report: dict[CursorKey, Cursor] = {}
        self.undelivered = undelivered
        self.dead_letters = dead_letters
        self.suspensions = suspensions
        self.cancelled_messages = CancelledMessages(marks, tasks)
        self.traces = traces
        self.circuits = Circuits()
        loop = asyncio.get_running_loop()
        self.delivery_budget = LoopBudget(loop, adapts=True)
        self.filter_budget = LoopBudget(
            loop, starts=FILTERS_PER_TURN, seconds=FILTER_SECONDS_PER_TURN
        )
        self.bodies = ParsedBodies()
        self.watchdog = StallWatchdog()
        self.tasks = tasks
        self._configuration_retries = ConfigurationRetries(loop, self._configure_again)

    def __contains__(self, key: CursorKey) -> bool:
        """Whether this cursor is open."""
        return key in self._cursors

    def keys(self) -> KeysView[CursorKey]:
        """The open cursors."""
        return self._cursors.keys()

    def cursors(self) -> Iterator[tuple[CursorKey, Cursor]]:
        """Return the open cursors with their keys."""
        return iter(self._cursors.items())

    def report_later(self, key: CursorKey, cursor: Cursor) -> None:
        """Keep a closed cursor in `unreported`, until its position is reported."""
        self._to_report[key] = cursor

    def report_all(self) -> None:
        """Include all open cursors in `unreported`, once."""
        for cursor in self._cursors.values():
            cursor.unreported = True

    def unreported(self) -> list[tuple[CursorKey, Cursor]]:
        """Return all cursors, open and closed, whose committed position is not reported yet."""
        self._to_report = {
            key: cursor
            for key, cursor in self._to_report.items()
            if cursor.unreported and key not in self._cursors
        }
        moved = [(key, cursor) for key, cursor in self._cursors.items() if cursor.unreported]
        return [*self._to_report.items(), *moved]

    def consumers(self) -> Collection[SubscriptionConsumer]:
        """The consumers that have cursors."""
        return self._consumers.values()

    def known(self) -> Iterator[SubscriptionConsumer]:
        """Return the consumers with cursors and the idle ones."""
        yield from self._consumers.values()
        yield from self._resting.values()

    def close(self) -> None:
        """Start no more requests, and end the requests in flight, because the worker stops."""
        self._configuration_retries.close()
        for consumer in (*self._consumers.values(), *self._resting.values()):
            consumer.abandon()

    def moved(self, group: str, cursor: Cursor) -> None:
        """Commit the position of `cursor` soon, under the consumer group `group`."""
        self._committer.moved(group, cursor)

    async def begin_epoch(self, group: str, cursor: Cursor) -> None:
        """Begin a producer epoch of `cursor`, unless it has one.

        Wait until the epoch is committed. From then on, discards of the cursor may be recorded. If
        the cursor is abandoned, do not wait.
        """
        await self._committer.begin_epoch(group, cursor)

    def open(self, opened: Mapping[Partition, Collection[tuple[Subscription, Progress]]]) -> None:
        """Open a cursor for each partition and subscription in `opened`.

        The cursors of one partition start reading together.
        """
        for partition, starts in opened.items():
            cursors = [
                self._opened(subscription, partition, progress) for subscription, progress in starts
            ]
            feed = self.reader.join(partition, cursors)
            for (subscription, _), cursor in zip(starts, cursors, strict=True):
                cursor.read_from(self._consumers[subscription.id].fetches, feed)

    def current(self, subscription_id: str) -> Subscription | None:
        """Return the settings in use for this subscription, if it has a consumer here."""
        consumer = self._consumers.get(subscription_id)
        return None if consumer is None else consumer.subscription

    def configure(self, subscription: Subscription) -> None:
        """Use the subscription's new settings, if it has a consumer here."""
        consumer = self._consumers.get(subscription.id)
        if consumer is not None and consumer.subscription != subscription:
            self._apply(consumer, subscription)

    def share(self, subscription_id: str, share: Share) -> None:
        """Let the subscription send at most this share of its rate from this worker."""
        consumer = self._consumers.get(subscription_id)
        if consumer is not None:
            consumer.share(share)

    def demands(self) -> Mapping[str, Demand]:
        """Return how the active consumers use their shares, by subscription id."""
        return {
            each: demand
            for each, consumer in self._consumers.items()
            if (demand := consumer.demand())
        }

    def halt(self, keys: Collection[CursorKey]) -> list[tuple[str, Cursor]]:
        """Close the cursors with these keys, and send no more messages for them.

        Return each closed cursor with its consumer group. The caller passes the result to `finish`.
        """
        halted, closing = [], defaultdict[str, set[Cursor]](set)
        for key in keys:
            cursor = self._cursors.pop(key)
            cursor.halt()
            closing[key.subscription_id].add(cursor)
            halted.append((self._consumers[key.subscription_id].subscription.group, cursor))
        for subscription_id, cursors in closing.items():
            self._consumers[subscription_id].release(cursors)
        self._drop_empty_consumers()
        return halted

    async def finish(
        self,
        halted: Collection[tuple[str, Cursor]],
        *,
        request_timeout: timedelta,
        commit_timeout: timedelta | None,
    ) -> None:
        """Wait up to `request_timeout` for requests in flight to end. Then commit.

        Messages that are finished after the commit are not committed, because another worker may
        own the partition by then. If `commit_timeout` is None, this worker stays the owner, and
        repeats the commit until it succeeds or the cursor is abandoned.
        """
        idle = await self._finish(halted, request_timeout, commit_timeout)
        if not idle and commit_timeout is None:
            # Some requests or discards have not ended. Perhaps the log was down, so that discards
            # could not be recorded. Wait once more for these requests and discards, because no
            # discard is recorded after `abandon`.
            await self._finish(halted, request_timeout, commit_timeout)
        abandon(halted)

    async def _finish(
        self,
        halted: Collection[tuple[str, Cursor]],
        request_timeout: timedelta,
        commit_timeout: timedelta | None,
    ) -> bool:
        idle = await drained([cursor for _, cursor in halted], request_timeout)
        for _, cursor in halted:
            cursor.settle()
        await self._committer.finish(halted, commit_timeout)
        return idle

    def _opened(self, subscription: Subscription, partition: Partition, start: Progress) -> Cursor:
        consumer = self._consumers.get(subscription.id) or self._begun(subscription)
        cursor = Cursor(consumer, partition, start, receipts=self._receipts)
        consumer.opened(cursor)
        # Commit the position of the new cursor again later, even if it has not moved. The log may
        # still apply a late commit of the last owner, and the next owner of the partition would
        # then start at the position in that commit.
        self._committer.doubt(cursor)
        # After a seek, commit the start position soon, so that users see it. Do the same if the
        # last owner had a producer epoch: its discards after the position may be retracted, and a
        # late commit of that owner must not pass the retracted messages for long.
        if subscription.seek is not None or start.producer_epoch:
            cursor.renew()
        self._cursors[CursorKey(subscription.id, partition)] = cursor
        return cursor

    def _begun(self, subscription: Subscription) -> SubscriptionConsumer:
        consumer = self._resting.pop(subscription.id, None)
        if consumer is None:
            consumer = self._made(subscription)
        else:
            consumer.forget_share()
        if consumer.is_stopped:
            self._apply(consumer, subscription)
        else:
            self._applied(consumer)
        self._consumers[subscription.id] = consumer
        return consumer

    def _made(self, subscription: Subscription) -> SubscriptionConsumer:
        """Create a consumer.

        If the consumer cannot be created with its settings, create a stopped consumer without them.
        """
        endpoint = self._endpoint(subscription)
        try:
            return SubscriptionConsumer(subscription, endpoint, self)
        except Exception:  # noqa: BLE001 - the same error is raised again with the settings
            consumer = SubscriptionConsumer(_bare(subscription), endpoint, self)
            consumer.stop()
            return consumer

    def _apply(self, consumer: SubscriptionConsumer, subscription: Subscription) -> None:
        """Apply the settings of `subscription` to `consumer`.

        After an error, the settings are applied again later.
        """
        try:
            consumer.configure(subscription, self._endpoint(subscription))
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            consumer.unapplied = consumer.defects.found(exc, step="configure")
            self._configuration_retries.failed(subscription.id)
        else:
            self._applied(consumer)

    def _applied(self, consumer: SubscriptionConsumer) -> None:
        if consumer.is_broken:
            self._configuration_retries.failed(consumer.subscription.id)
        else:
            self._configuration_retries.done(consumer.subscription.id)

    def _configure_again(self, subscription_id: str) -> None:
        # Apply the settings only if the consumer has cursors. The settings of an idle consumer are
        # applied when it gets cursors.
        if (consumer := self._consumers.get(subscription_id)) is not None:
            self._apply(consumer, consumer.subscription)
        else:
            self._configuration_retries.done(subscription_id)

    def _endpoint(self, subscription: Subscription) -> Endpoint:
        try:
            return self._endpoints.destination(subscription)
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            return BrokenEndpoint(exc)

    def forget_deleted(self, exists: Callable[[str], bool]) -> None:
        """Forget the idle consumers of deleted subscriptions, apart from the last DELETED_MAX.

        `exists` is called with their ids.
        """
        deleted = [known for known in self._idle() if not exists(known)]
        for subscription_id in deleted[: max(0, len(deleted) - DELETED_MAX)]:
            del self._resting[subscription_id]

    def _idle(self) -> list[str]:
        # Consumers with requests in flight are always kept. Their requests end at the latest when
        # the worker ends.
        return [known for known, consumer in self._resting.items() if not consumer.in_flight]

    def _drop_empty_consumers(self) -> None:
        used = {key.subscription_id for key in self._cursors}
        for subscription_id in [known for known in self._consumers if known not in used]:
            consumer = self._resting[subscription_id] = self._consumers.pop(subscription_id)
            consumer.stop()
        for subscription_id in self._idle()[: max(0, len(self._resting) - RESTING_MAX)]:
            del self._resting[subscription_id]


def _bare(known: Subscription) -> Subscription:
    """Return the subscription without the settings that may have caused an unexpected error."""
    return Subscription(
        id=known.id, topic=known.topic, name=known.name, endpoint=known.endpoint, start=known.start
    )


def abandon(halted: Collection[tuple[str, Cursor]]) -> None:
    """Prevent further commits of the cursors in `halted`."""
    for _, cursor in halted:
        cursor.abandon()


async def drained(cursors: Collection[Cursor], within: timedelta) -> bool:
    """Wait until no request of these cursors is in flight.

    Return False if a request is still in flight after the time `within`.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            for cursor in cursors:
                await cursor.idle()
    except TimeoutError:
        return False
    return True
