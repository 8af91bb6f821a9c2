"""Shares subscriptions' rates with other workers: each second they say what they need and lend.

One look at what the others say, and one statement with all that we say, for all subscriptions that
have several workers; without any of those nothing is read or written. Nobody waits for it: whatever
becomes of the database, each worker has what its partitions give it, less what it has lent.
"""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

import structlog

from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.sharing import RateNote
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from workers.assignment.demand import needed
from workers.assignment.negotiation import Negotiation
from workers.assignment.sharing_round import Moment
from workers.delivery.share import Demand, Share
from workers.delivery.stall_watchdog import StallWatchdog

INTERVAL: Final = timedelta(seconds=1)
# How often we look whether we live, and whether others have been heard.
WATCH_INTERVAL: Final = timedelta(seconds=0.5)
# After so long without hearing from others a worker uses only half of its share.
SILENCE_S: Final = 5.0
# So many subscriptions of a worker ask for more; the rest keep what is theirs.
ASKING_MAX: Final = 1_000
# Deliveries go on meanwhile.
DECISIONS_PER_TURN: Final = 50
# What was said so many rounds ago is not answered any more.
ROUNDS_REMEMBERED: Final = 16

_log = structlog.get_logger()


class NoteStore(Protocol):
    """Where workers leave notes for each other; all raise UnavailableError."""

    async def others(self) -> Collection[RateNote]:
        """The last notes of all others, on everything."""

    async def say(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        """Leave these notes, and take back those on the subscriptions in `drop`."""


class SharedConsumers(Protocol):
    """The consumers whose rates are shared."""

    @property
    def watchdog(self) -> StallWatchdog:
        """What holds all sends when this process was not alive."""

    def share(self, subscription_id: str, share: Share) -> None:
        """Let the subscription send at most this share of its rate from here."""

    def demands(self) -> Mapping[str, Demand]:
        """What the consumers that do not rest do with their shares, by subscription id."""


class Held(NamedTuple):
    """A subscription that is delivered here, and the partitions of its topic that are ours."""

    subscription: Subscription
    topic: Topic
    owned: frozenset[int]


class RateSharing:
    """The only one who says how much of its rate a consumer may use."""

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
        # By topic and index.
        self._assigned_at: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._newest = float("-inf")
        # When the last look at the notes of others began, and what was found.
        self._read_began = float("-inf")
        self._notes: Mapping[str, list[RateNote]] = {}
        self._number = 0
        self._said_at: OrderedDict[int, float] = OrderedDict()
        # The subscriptions that we may have notes on.
        self._said: set[str] = set()
        # Those that are lent, borrowed or needed, and whether any could be.
        self._talking: set[str] = set()
        self._shared = False
        self._unheard_since: float | None = None
        self._wake = asyncio.Event()
        self._resting = asyncio.Event()
        self._resting.set()

    # ---- what the supervisor says ---------------------------------------------------------------

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """These are ours from now on."""
        self._newest = self._clock()
        for partition in partitions:
            self._assigned_at[partition.topic][partition.index] = self._newest

    def gone(self, partitions: Iterable[Partition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._assigned_at[partition.topic].pop(partition.index, None)

    def hold(self, held: Iterable[Held]) -> None:
        """Deliver these subscriptions and no others, each at the share that is ours."""
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
                self._talking.discard(subscription_id)
        if self._newest > self._read_began:
            self._wake.set()

    async def settled(self) -> None:
        """Return when what we lent so far can be read by others, or never will be."""
        await self._resting.wait()

    def _hold(self, held: Held, now: float) -> None:
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
            negotiation.hear_of_loans(notes, now)
        self._consumers.share(subscription.id, negotiation.share(now))
        self._shared = self._shared or negotiation.is_shared

    # ---- talking --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Talk each second, and at once when partitions came, until cancelled."""
        while True:
            await self._next_round()
            await self.talk()

    async def watch(self) -> None:
        """Look each half a second whether we live and hear, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(WATCH_INTERVAL.total_seconds())

    async def talk(self) -> None:
        """One round, if there is somebody to talk to; none soon after this process stalled."""
        if not self._has_reason():
            self._unheard_since = None
            return
        began = self._clock()
        if self._consumers.watchdog.wait(began) > 0:
            return  # what it believes to own may be another's by now, and must not be lent
        if self._unheard_since is None:
            self._unheard_since = began
        try:
            notes = by_subscription(await self._store.others())
            self._resting.clear()
            await self._say(await self._decided(notes, began))
        except UnavailableError as exc:
            _log.warning("rates_not_shared", error=exc.message)
        finally:
            self._resting.set()

    def look(self) -> None:
        """Say that we live, and notice when others are not heard."""
        now = self._clock()
        if self._consumers.watchdog.beat(now):
            _log.warning("worker_hung")
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
        return bool(self._shared or self._talking or self._said or waiting)

    async def _decided(self, notes: Mapping[str, list[RateNote]], began: float) -> list[RateNote]:
        """Hear all, and act on it at once: what we lend is not used when it is said to be lent."""
        now = self._clock()
        all_new = self._newest > self._read_began or self._was_silent(now)
        self._read_began, self._notes, self._unheard_since = began, notes, None
        self._number += 1
        moment = Moment(self._number, now, self._said_at)
        demands = self._consumers.demands()
        # Else nothing has changed that concerns the others, which are most.
        concerned = list(
            self._negotiations if all_new else self._talking | notes.keys() | demands.keys()
        )
        said: list[RateNote] = []
        for number, subscription_id in enumerate(concerned):
            if number % DECISIONS_PER_TURN == DECISIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            asks = len(said) < ASKING_MAX
            demand = demands.get(subscription_id)
            if self._need(subscription_id, demand) or all_new or subscription_id in notes:
                note = self._decide(subscription_id, moment, asks=asks)
                said += [note] if note else []
        return said

    def _need(self, subscription_id: str, demand: Demand | None) -> bool:
        """Learn what it needs; whether that is to be talked about, or was."""
        negotiation = self._negotiations.get(subscription_id)
        if negotiation is None:
            return False
        negotiation.need(needed(demand) if demand and negotiation.is_shared else 0.0)
        return not negotiation.is_idle or subscription_id in self._talking

    def _decide(self, subscription_id: str, moment: Moment, *, asks: bool) -> RateNote | None:
        negotiation = self._negotiations.get(subscription_id)
        if negotiation is None:
            return None
        heard = self._notes.get(subscription_id, ())
        negotiation.hear(heard, moment, verified=self._read_began)
        note = negotiation.decide(heard, moment, asks=asks)
        self._consumers.share(subscription_id, negotiation.share(moment.now))
        if negotiation.is_idle:
            self._talking.discard(subscription_id)
        else:
            self._talking.add(subscription_id)
        if negotiation.is_over:
            del self._negotiations[subscription_id]
        return note

    async def _say(self, notes: Collection[RateNote]) -> None:
        saying = {note.subscription_id for note in notes}
        drop = self._said - saying
        if not (notes or drop):
            return
        self._said_at[self._number] = self._clock()
        while len(self._said_at) > ROUNDS_REMEMBERED:
            self._said_at.popitem(last=False)
        # Until we know better, all of them may be there.
        self._said |= saying
        await self._store.say(notes, drop)
        self._said = saying

    def _was_silent(self, now: float) -> bool:
        return self._unheard_since is not None and now - self._unheard_since >= SILENCE_S

    def _fall_silent(self, now: float) -> None:
        for subscription_id, negotiation in self._negotiations.items():
            negotiation.fall_silent()
            self._consumers.share(subscription_id, negotiation.share(now))


def by_subscription(notes: Iterable[RateNote]) -> dict[str, list[RateNote]]:
    """The notes on each subscription."""
    found: dict[str, list[RateNote]] = {}
    for note in notes:
        found.setdefault(note.subscription_id, []).append(note)
    return found
