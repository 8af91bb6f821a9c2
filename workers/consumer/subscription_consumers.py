"""All delivery lines of a worker: opening and closing cursors, one line a subscription."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, KeysView, Mapping
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from app.domain.commit import Progress
from app.domain.message import Partition
from app.domain.subscription import Subscription
from app.filtering.bodies import ParsedBodies
from app.tracing.buffer import TraceBuffer
from workers.consumer.commit.committer import Committer
from workers.consumer.commit.cursor import Cursor
from workers.consumer.commit.receipts import Receipts
from workers.consumer.configuration_retries import Repeats
from workers.consumer.endpoint import BrokenEndpoint, Endpoint
from workers.consumer.loop_budget import FILTER_SECONDS_PER_TURN, FILTERS_PER_TURN, Turns
from workers.consumer.outcome.dead_letters import DeadLetters
from workers.consumer.outcome.undelivered import UndeliveredLog
from workers.consumer.schedule.suspension import Suspensions
from workers.consumer.source.cancelled_messages import SentMarks, Unsent
from workers.consumer.subscription_consumer import DeliveryLine
from workers.delivery.circuits import Circuits
from workers.delivery.pulse import Pulse
from workers.delivery.share import Demand, Share
from workers.reading.reader import Reader

# Lines that rest are remembered up to here; most of what they know is stale after a second.
RESTING_MAX: Final = 1_000


class CursorKey(NamedTuple):
    """A subscription, by the id of its incarnation, in a partition."""

    subscription_id: str
    partition: Partition


class Endpoints(Protocol):
    """Makes endpoints to send to."""

    def destination(self, subscription: Subscription) -> Endpoint:
        """Where its messages go, and how."""


class Lines:
    """Owns the lines and their cursors. A line works while it has cursors, then it rests."""

    def __init__(  # noqa: PLR0913 - the parts that all lines share
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
        self._lines: dict[str, DeliveryLine] = {}
        # Without cursors, the last to stop last: one that is resumed goes on with what it has sent
        # in the last second, and with the quiet that its subscriber asked for.
        self._resting: OrderedDict[str, DeliveryLine] = OrderedDict()
        self._cursors: dict[CursorKey, Cursor] = {}
        # Closed, and at most one of each key: where they stood is still to be reported.
        self._to_report: dict[CursorKey, Cursor] = {}
        self.undelivered = undelivered
        self.dead_letters = dead_letters
        self.suspensions = suspensions
        self.unsent = Unsent(marks, tasks)
        self.traces = traces
        self.circuits = Circuits()
        loop = asyncio.get_running_loop()
        self.turns = Turns(loop, adapts=True)
        self.filter_turns = Turns(loop, starts=FILTERS_PER_TURN, seconds=FILTER_SECONDS_PER_TURN)
        self.bodies = ParsedBodies()
        self.pulse = Pulse()
        self.tasks = tasks
        self._repeats = Repeats(loop, self._repeat)

    def __contains__(self, key: CursorKey) -> bool:
        """Whether that cursor is open."""
        return key in self._cursors

    def keys(self) -> KeysView[CursorKey]:
        """The open cursors."""
        return self._cursors.keys()

    def cursors(self) -> Iterator[tuple[CursorKey, Cursor]]:
        """The open cursors with their keys."""
        return iter(self._cursors.items())

    def report_later(self, key: CursorKey, cursor: Cursor) -> None:
        """Have a closed cursor among the `unreported` until it is reported."""
        self._to_report[key] = cursor

    def unreported(self) -> list[tuple[CursorKey, Cursor]]:
        """What has been committed and not been reported: by open cursors, and by closed ones."""
        self._to_report = {
            key: cursor
            for key, cursor in self._to_report.items()
            if cursor.unreported and key not in self._cursors
        }
        moved = [(key, cursor) for key, cursor in self._cursors.items() if cursor.unreported]
        return [*self._to_report.items(), *moved]

    def lines(self) -> Collection[DeliveryLine]:
        """The lines that have cursors."""
        return self._lines.values()

    def known(self) -> Iterator[DeliveryLine]:
        """The lines that have cursors, and those that rest."""
        yield from self._lines.values()
        yield from self._resting.values()

    def close(self) -> None:
        """Begin nothing more, and end what is in the air: the worker ends."""
        self._repeats.close()
        for line in (*self._lines.values(), *self._resting.values()):
            line.abandon()

    def moved(self, group: str, cursor: Cursor) -> None:
        """The cursor of `group` has something new to commit."""
        self._committer.moved(group, cursor)

    async def begin_life(self, group: str, cursor: Cursor) -> None:
        """As `LineParts.begin_life`."""
        await self._committer.begin_life(group, cursor)

    def open(self, opened: Mapping[Partition, Collection[tuple[Subscription, Progress]]]) -> None:
        """Open a cursor for each; those of one partition start reading together."""
        for partition, starts in opened.items():
            cursors = [
                self._opened(subscription, partition, progress) for subscription, progress in starts
            ]
            feed = self.reader.join(partition, cursors)
            for (subscription, _), cursor in zip(starts, cursors, strict=True):
                cursor.read_from(self._lines[subscription.id].fetches, feed)

    def current(self, subscription_id: str) -> Subscription | None:
        """The settings that the subscription is delivered by here, if it has a line."""
        line = self._lines.get(subscription_id)
        return None if line is None else line.subscription

    def configure(self, subscription: Subscription) -> None:
        """Deliver by the subscription's new settings, if it has a line here."""
        line = self._lines.get(subscription.id)
        if line is not None and line.subscription != subscription:
            self._apply(line, subscription)

    def share(self, subscription_id: str, share: Share) -> None:
        """Let the subscription send at most this share of its rate from here."""
        line = self._lines.get(subscription_id)
        if line is not None:
            line.share(share)

    def demands(self) -> Mapping[str, Demand]:
        """What the lines that do not rest do with their shares, by subscription id."""
        return {each: demand for each, line in self._lines.items() if (demand := line.demand())}

    def halt(self, keys: Collection[CursorKey]) -> list[tuple[str, Cursor]]:
        """Send nothing more for these; returns what is to be finished, each with its group."""
        halted, closing = [], defaultdict[str, set[Cursor]](set)
        for key in keys:
            cursor = self._cursors.pop(key)
            cursor.halt()
            closing[key.subscription_id].add(cursor)
            halted.append((self._lines[key.subscription_id].subscription.group, cursor))
        for subscription_id, cursors in closing.items():
            self._lines[subscription_id].release(cursors)
        self._drop_empty_lines()
        return halted

    async def finish(
        self,
        halted: Collection[tuple[str, Cursor]],
        *,
        landing: timedelta,
        committing: timedelta | None,
    ) -> None:
        """Wait up to `landing` for what is in the air, then up to `committing` for the commit.

        What lands later is not committed: the partition may be another worker's by then. Without
        `committing` it stays ours, and the commit is repeated until it is in, or abandoned.
        """
        landed = await self._finish(halted, landing, committing)
        if not landed and committing is None:
            # The log may have been down: then what was to be recorded there lands only now.
            await self._finish(halted, landing, committing)
        abandon(halted)

    async def _finish(
        self,
        halted: Collection[tuple[str, Cursor]],
        landing: timedelta,
        committing: timedelta | None,
    ) -> bool:
        landed = await drained([cursor for _, cursor in halted], landing)
        for _, cursor in halted:
            cursor.settle()
        await self._committer.finish(halted, committing)
        return landed

    def _opened(self, subscription: Subscription, partition: Partition, start: Progress) -> Cursor:
        line = self._lines.get(subscription.id) or self._begun(subscription)
        cursor = Cursor(line, partition, start, receipts=self._receipts)
        line.opened(cursor)
        if subscription.seek is not None:
            cursor.renew()  # so that everybody can see where it was moved to
        self._cursors[CursorKey(subscription.id, partition)] = cursor
        return cursor

    def _begun(self, subscription: Subscription) -> DeliveryLine:
        line = self._resting.pop(subscription.id, None)
        if line is None:
            line = self._made(subscription)
        else:
            line.forget_share()
        if line.is_stopped:
            self._apply(line, subscription)
        else:
            self._applied(line)
        self._lines[subscription.id] = line
        return line

    def _made(self, subscription: Subscription) -> DeliveryLine:
        """Make a line. If its settings cannot be applied, make it without them, and stopped."""
        endpoint = self._endpoint(subscription)
        try:
            return DeliveryLine(subscription, endpoint, self)
        except Exception:  # noqa: BLE001 - goes wrong again when the settings are applied
            line = DeliveryLine(_bare(subscription), endpoint, self)
            line.stop()
            return line

    def _apply(self, line: DeliveryLine, subscription: Subscription) -> None:
        """Apply the settings to `line`. After an error, apply them again later."""
        try:
            line.configure(subscription, self._endpoint(subscription))
        except Exception as exc:  # noqa: BLE001 - no other subscription shall suffer
            line.defects.found(exc, step="configure")
            self._repeats.failed(subscription.id)
        else:
            self._applied(line)

    def _applied(self, line: DeliveryLine) -> None:
        if line.is_broken:
            self._repeats.failed(line.subscription.id)
        else:
            self._repeats.done(line.subscription.id)

    def _repeat(self, subscription_id: str) -> None:
        # Without cursors it is configured when it has some again.
        if (line := self._lines.get(subscription_id)) is not None:
            self._apply(line, line.subscription)
        else:
            self._repeats.done(subscription_id)

    def _endpoint(self, subscription: Subscription) -> Endpoint:
        try:
            return self._endpoints.destination(subscription)
        except Exception as exc:  # noqa: BLE001 - no other subscription shall suffer
            return BrokenEndpoint(exc)

    def _drop_empty_lines(self) -> None:
        used = {key.subscription_id for key in self._cursors}
        for subscription_id in [known for known in self._lines if known not in used]:
            line = self._resting[subscription_id] = self._lines.pop(subscription_id)
            line.stop()
        # One with requests in the air is not forgotten: they end with the worker at the latest.
        landed = [known for known, line in self._resting.items() if not line.in_air]
        for subscription_id in landed[: max(0, len(self._resting) - RESTING_MAX)]:
            del self._resting[subscription_id]


def _bare(known: Subscription) -> Subscription:
    """The subscription without settings that a defect could be about."""
    return Subscription(
        id=known.id, topic=known.topic, name=known.name, endpoint=known.endpoint, start=known.start
    )


def abandon(halted: Collection[tuple[str, Cursor]]) -> None:
    """Commit nothing more for these."""
    for _, cursor in halted:
        cursor.abandon()


async def drained(cursors: Collection[Cursor], within: timedelta) -> bool:
    """Wait until nothing of these is in the air; False if that took longer than `within`."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            for cursor in cursors:
                await cursor.idle()
    except TimeoutError:
        return False
    return True
