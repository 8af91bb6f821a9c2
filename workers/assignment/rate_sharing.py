"""Shares subscription rates between workers. They write notes about needs and loans.

Each second, one query reads the notes of the other workers, and one statement writes all notes of
this worker, for all subscriptions with several workers. If there are no such subscriptions, nothing
is read or written. Deliveries do not wait for the notes. If the database fails, each worker has the
rate of its own partitions, minus what it lends.
"""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.demand import needed
from workers.assignment.negotiation import Negotiation
from workers.assignment.sharing_round import SharingRound
from workers.delivery.share import Demand, Share
from workers.delivery.stall_watchdog import StallWatchdog

INTERVAL: Final = timedelta(seconds=1)
# How often this worker checks two things: whether its own process runs without a break, and whether
# the notes of other workers can be read.
WATCH_INTERVAL: Final = timedelta(seconds=0.5)
# If the notes of other workers cannot be read for this many seconds, this worker uses only half of
# its share.
SILENCE_S: Final = 5.0
# The maximum number of subscriptions for which a worker requests tickets. For further
# subscriptions, it requests none.
ASKING_MAX: Final = 1_000
# The number of subscriptions for which this worker decides about tickets in one turn of the event
# loop. Deliveries continue between two turns.
DECISIONS_PER_TURN: Final = 50
# For this many rounds, a worker knows when it wrote its notes. It does not use answers to older
# notes.
ROUNDS_REMEMBERED: Final = 16

_log = structlog.get_logger()


class NoteStore(Protocol):
    """The store of the workers' notes. All methods may raise UnavailableError."""

    async def others(self) -> Collection[RateNote]:
        """Return the last note of each other worker about each subscription."""

    async def leave_notes(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        """Store these notes, and remove this worker's notes about the subscriptions in `drop`."""


class SharedConsumers(Protocol):
    """The consumers of this worker, which may share their rates with other workers."""

    @property
    def watchdog(self) -> StallWatchdog:
        """Blocks all sending after this process did not run for some time."""

    def share(self, subscription_id: str, share: Share) -> None:
        """Let the subscription send at most this share of its rate from this worker."""

    def demands(self) -> Mapping[str, Demand]:
        """Return, by subscription id, how much of their shares the active consumers use."""


class OwnedSubscription(NamedTuple):
    """A subscription that this worker delivers, with this worker's partitions of the topic."""

    subscription: Subscription
    topic: Topic
    owned: frozenset[int]


class RateSharing:
    """Sets how much of its subscription's rate each consumer may use. No other class does this."""

    def __init__(
        self,
        worker_id: str,
        consumers: SharedConsumers,
        store: NoteStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker_id = worker_id
        self._consumers = consumers
        self._store = store
        self._clock = clock
        self._negotiations: dict[str, Negotiation] = {}
        # When each owned partition was assigned, by topic and partition index.
        self._assigned_at: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._newest = float("-inf")
        # When this worker began to read the notes of other workers for the last time.
        self._read_began = float("-inf")
        # The notes of other workers from the last reading, by subscription id.
        self._notes: Mapping[str, list[RateNote]] = {}
        self._number = 0
        self._written_at: OrderedDict[int, float] = OrderedDict()
        # The subscriptions about which notes of this worker may be in the database.
        self._noted: set[str] = set()
        # The subscriptions for which this worker lends, borrows or needs tickets.
        self._negotiating: set[str] = set()
        # Whether this worker shares the rate of any subscription with other workers.
        self._shared = False
        self._unread_since: float | None = None
        self._wake = asyncio.Event()
        self._resting = asyncio.Event()
        self._resting.set()

    # ---- called by the supervisor ---------------------------------------------------------------

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Add newly owned partitions."""
        self._newest = self._clock()
        for partition in partitions:
            self._assigned_at[partition.topic][partition.index] = self._newest

    def gone(self, partitions: Iterable[Partition]) -> None:
        """Remove partitions that this worker no longer owns."""
        for partition in partitions:
            self._assigned_at[partition.topic].pop(partition.index, None)

    def hold(self, held: Iterable[OwnedSubscription]) -> None:
        """Set the subscriptions that this worker delivers, and give each its share of the rate."""
        now = self._clock()
        ids = set()
        self._shared = False
        for each in held:
            ids.add(each.subscription.id)
            self._hold(each, now)
        for subscription_id in self._negotiations.keys() - ids:
            negotiation = self._negotiations[subscription_id]
            negotiation.own({}, verified=self._read_began)
            if negotiation.is_over:
                del self._negotiations[subscription_id]
                self._negotiating.discard(subscription_id)
        if self._newest > self._read_began:
            self._wake.set()

    async def settled(self) -> None:
        """Wait until the notes about lent tickets are written, or writing them has failed."""
        await self._resting.wait()

    def _hold(self, held: OwnedSubscription, now: float) -> None:
        subscription, topic, owned = held
        negotiation = self._negotiations.get(subscription.id)
        if negotiation is None:
            negotiation = self._negotiations[subscription.id] = Negotiation(
                subscription.id, self._worker_id, begun=self._number
            )
        negotiation.configure(float(subscription.policy.rate), topic.partitions)
        assigned_at = self._assigned_at[topic.name]
        negotiation.own({i: assigned_at[i] for i in owned}, verified=self._read_began)
        if notes := self._notes.get(subscription.id):
            negotiation.read_loans(notes, now)
        self._consumers.share(subscription.id, negotiation.share(now))
        self._shared = self._shared or negotiation.is_shared

    # ---- rounds of sharing rates ----------------------------------------------------------------

    async def run(self) -> None:
        """Run a round each second, and immediately after an assignment, until cancelled."""
        while True:
            await self._next_round()
            await self.run_round()

    async def watch(self) -> None:
        """Call `check` each half second, until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(WATCH_INTERVAL.total_seconds())

    async def run_round(self) -> None:
        """Run one round, if this worker shares a rate, and its process has not just stalled."""
        if not self._has_reason():
            self._unread_since = None
            return
        began = self._clock()
        if self._consumers.watchdog.wait(began) > 0:
            return  # do not lend: other workers may own the partitions
        if self._unread_since is None:
            self._unread_since = began
        try:
            notes = by_subscription(await self._store.others())
            self._resting.clear()
            await self._leave_notes(await self._decided(notes, began))
        except UnavailableError as exc:
            _log.warning("rates_not_shared", error=exc.message)
        finally:
            self._resting.set()

    def check(self) -> None:
        """Check whether this process runs without a break, and whether notes can be read."""
        now = self._clock()
        if self._consumers.watchdog.beat(now):
            _log.warning("worker_stalled")
        if self._was_silent(now):
            self._fall_silent(now)

    async def _next_round(self) -> None:
        try:
            async with asyncio.timeout(INTERVAL.total_seconds()):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _has_reason(self) -> bool:
        waiting = self._newest > self._read_began
        return bool(self._shared or self._negotiating or self._noted or waiting)

    async def _decided(self, notes: Mapping[str, list[RateNote]], began: float) -> list[RateNote]:
        """Decide for all subscriptions what to lend and to request. Return the notes to write.

        When this method returns, this worker no longer uses the tickets that it lends.

        Args:
            notes: The last notes of all other workers, by subscription id.
            began: When this worker began to read the notes.
        """
        now = self._clock()
        all_new = self._newest > self._read_began or self._was_silent(now)
        self._read_began, self._notes, self._unread_since = began, notes, None
        self._number += 1
        sharing_round = SharingRound(self._number, now, self._written_at)
        demands = self._consumers.demands()
        # Leave out all subscriptions for which nothing has changed. Nearly all subscriptions are
        # unchanged.
        concerned = list(
            self._negotiations if all_new else self._negotiating | notes.keys() | demands.keys()
        )
        written: list[RateNote] = []
        for number, subscription_id in enumerate(concerned):
            if number % DECISIONS_PER_TURN == DECISIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            asks = len(written) < ASKING_MAX
            demand = demands.get(subscription_id)
            if self._need(subscription_id, demand) or all_new or subscription_id in notes:
                note = self._decide(subscription_id, sharing_round, asks=asks)
                written += [note] if note else []
        return written

    def _need(self, subscription_id: str, demand: Demand | None) -> bool:
        """Store how much of the subscription's rate this worker needs.

        Returns:
            Whether this worker lends, borrows or needs tickets of the subscription, or did so in
                the last round.
        """
        negotiation = self._negotiations.get(subscription_id)
        if negotiation is None:
            return False
        negotiation.need(needed(demand) if demand and negotiation.is_shared else 0.0)
        return not negotiation.is_idle or subscription_id in self._negotiating

    def _decide(
        self, subscription_id: str, sharing_round: SharingRound, *, asks: bool
    ) -> RateNote | None:
        negotiation = self._negotiations.get(subscription_id)
        if negotiation is None:
            return None
        notes = self._notes.get(subscription_id, ())
        negotiation.read_notes(notes, sharing_round, verified=self._read_began)
        note = negotiation.decide(notes, sharing_round, asks=asks)
        self._consumers.share(subscription_id, negotiation.share(sharing_round.now))
        if negotiation.is_idle:
            self._negotiating.discard(subscription_id)
        else:
            self._negotiating.add(subscription_id)
        if negotiation.is_over:
            del self._negotiations[subscription_id]
        return note

    async def _leave_notes(self, notes: Collection[RateNote]) -> None:
        ids = {note.subscription_id for note in notes}
        drop = self._noted - ids
        if not (notes or drop):
            return
        self._written_at[self._number] = self._clock()
        while len(self._written_at) > ROUNDS_REMEMBERED:
            self._written_at.popitem(last=False)
        # Add all new notes to `_noted` before they are written. If the writing fails, each new note
        # may be in the database or not.
        self._noted |= ids
        await self._store.leave_notes(notes, drop)
        self._noted = ids

    def _was_silent(self, now: float) -> bool:
        return self._unread_since is not None and now - self._unread_since >= SILENCE_S

    def _fall_silent(self, now: float) -> None:
        for subscription_id, negotiation in self._negotiations.items():
            negotiation.fall_silent()
            self._consumers.share(subscription_id, negotiation.share(now))


def by_subscription(notes: Iterable[RateNote]) -> dict[str, list[RateNote]]:
    """Return the notes, grouped by the id of their subscription."""
    found: dict[str, list[RateNote]] = {}
    for note in notes:
        found.setdefault(note.subscription_id, []).append(note)
    return found
