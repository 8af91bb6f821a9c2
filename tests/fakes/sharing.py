"""Workers that share one subscription's rate, on a clock of the test's, with all that goes wrong.

What they negotiate is real. Reading and writing notes takes time, or fails without saying whether
it was done; workers hang and die; partitions move. At every moment it is noted who may use which
ticket.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from app.domain.sharing import RateNote
from workers.assignment.moment import Moment
from workers.assignment.negotiation import Negotiation
from workers.delivery.rate import WINDOW_S
from workers.delivery.share import Share
from workers.delivery.tickets import ticket_count

SUBSCRIPTION = "s"
PARTITIONS = 6
STEP_S = 0.05


@dataclass(slots=True)
class Talker:
    """One worker: its clock is `skew` off, and it needs so much, in requests per second."""

    name: str
    skew: float
    negotiation: Negotiation
    share: Share
    need: float = 0.0
    number: int = 0
    verified: float = float("-inf")
    said_at: dict[int, float] = field(default_factory=dict)
    # When all that it wrote can be read.
    settled_at: float = float("-inf")
    assigned_at: dict[int, float] = field(default_factory=dict)
    dead: bool = False
    hung_until: float = float("-inf")
    cut_off: bool = False

    def own(self, indexes: set[int], now: float) -> None:
        local = now + self.skew
        self.assigned_at = {i: self.assigned_at.get(i, local) for i in indexes}
        self.negotiation.own(self.assigned_at, verified=self.verified)
        self.share = self.negotiation.share(local)

    def held(self, now: float) -> int:
        return 0 if self.dead or now < self.hung_until else self.share.held(now + self.skew)[0]


class Talks:
    """A number of workers, the notes in their database, and who uses which ticket."""

    def __init__(self, random: Random, *, workers: int, limit: float, partitions: int) -> None:
        self.random = random
        self.limit = limit
        self.partitions = partitions
        self.now = 0.0
        self.notes: dict[str, RateNote] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        # Who used each ticket last, and when.
        self._users: dict[int, tuple[str, float]] = {}
        self.conflicts: list[str] = []
        self.talkers = {name: self._talker(name) for name in (f"w{n}" for n in range(workers))}
        self.owners = {index: f"w{index % workers}" for index in range(partitions)}
        for talker in self.talkers.values():
            talker.own(self.owned_by(talker.name), self.now)
            self.after(random.random(), partial(self._round, talker))

    def _talker(self, name: str) -> Talker:
        negotiation = Negotiation(SUBSCRIPTION, name)
        negotiation.configure(self.limit, self.partitions)
        skew = self.random.uniform(-1000, 1000)
        return Talker(name, skew, negotiation, negotiation.share(skew))

    def owned_by(self, name: str) -> set[int]:
        return {index for index, owner in self.owners.items() if owner == name}

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let time pass, and look every 50 ms at who uses what."""
        end = self.now + seconds
        while self.now < end:
            until = self.now + STEP_S
            while self._events and self._events[0][0] <= until:
                self.now, _, action = heapq.heappop(self._events)
                action()
                self._look()
            self.now = until
            self._look()

    def fraction(self, name: str) -> float:
        """How much of the rate a worker has now."""
        return self.talkers[name].held(self.now).bit_count() / ticket_count(self.partitions)

    # ---- what goes wrong ------------------------------------------------------------------------

    def move(self, index: int, to: str, *, after: float = 0.0) -> None:
        """Give a partition to another worker, who gets it `after` its owner let go.

        As in the service: nobody lets go before others can read what he lent.
        """
        before = self.talkers[self.owners.pop(index)]
        before.own(self.owned_by(before.name), self.now)
        pause = max(after, before.settled_at - self.now)
        self.after(pause, partial(self._arrive, {index: to}))

    def kill(self, name: str, heirs: list[str]) -> None:
        """End a worker without a word; others have its partitions when its last write is over.

        As in the service, where its partitions are its own until its lease is over.
        """
        victim = self.talkers[name]
        victim.dead = True
        inherited = {index: self.random.choice(heirs) for index in self.owned_by(name)}
        for index in inherited:
            del self.owners[index]
        pause = max(0.0, victim.settled_at - self.now)
        self.after(pause, partial(self._arrive, inherited))

    def hang(self, name: str, seconds: float) -> None:
        """Stop a worker for a while; it keeps its partitions."""
        self.talkers[name].hung_until = self.now + seconds

    def _arrive(self, partitions: Mapping[int, str]) -> None:
        """They have new owners; those of one who died meanwhile go to another."""
        alive = [name for name, each in self.talkers.items() if not each.dead]
        for index, to in partitions.items():
            self.owners[index] = to if to in alive else self.random.choice(alive)
        for name in {self.owners[index] for index in partitions}:
            self.talkers[name].own(self.owned_by(name), self.now)

    # ---- talking --------------------------------------------------------------------------------

    def _round(self, talker: Talker) -> None:
        """As in the service, one round after the other: a read, a decision, a write."""
        if talker.dead:
            return
        if talker.cut_off or self.now < talker.hung_until:
            self._next_round(talker)
            return
        began, notes = self.now, [n for n in self.notes.values() if n.worker_id != talker.name]
        self.after(self._delay(), lambda: self._decide(talker, began, notes))

    def _next_round(self, talker: Talker) -> None:
        self.after(self.random.uniform(0.9, 1.2), lambda: self._round(talker))

    def _decide(self, talker: Talker, began: float, notes: list[RateNote]) -> None:
        if talker.dead:
            return
        if self.now < talker.hung_until:
            self.after(talker.hung_until - self.now, lambda: self._decide(talker, began, notes))
            return
        local = self.now + talker.skew
        talker.number += 1
        moment = Moment(talker.number, local, talker.said_at)
        talker.verified = began + talker.skew
        talker.negotiation.hear(notes, moment, verified=talker.verified)
        talker.negotiation.need(talker.need)
        note = talker.negotiation.decide(notes, moment)
        talker.share = talker.negotiation.share(local)
        talker.said_at[talker.number] = local
        delay = self._delay()
        talker.settled_at = self.now + delay
        self.after(delay, lambda: self._write(talker, note))

    def _write(self, talker: Talker, note: RateNote | None) -> None:
        fails = self.random.random() < 0.1
        if note is None and not fails:
            self.notes.pop(talker.name, None)
        elif note is not None and not fails:
            self.notes[talker.name] = note
        self._next_round(talker)

    def _delay(self) -> float:
        slow = self.random.random() < 0.1
        return self.random.uniform(0.3, 2.0) if slow else self.random.uniform(0.001, 0.02)

    def _look(self) -> None:
        for talker in self.talkers.values():
            tickets = talker.held(self.now)
            while tickets:
                ticket = tickets & -tickets
                tickets ^= ticket
                user, at = self._users.get(ticket, (talker.name, self.now))
                if user != talker.name and self.now - at < WINDOW_S - STEP_S:
                    self.conflicts.append(f"{self.now:.2f}: {talker.name} after {user} at {at:.2f}")
                self._users[ticket] = (talker.name, self.now)


def hard_times(seed: int, *, limit: float, seconds: int) -> Talks:
    """Demand that comes and goes, and now and then something that goes wrong."""
    random = Random(seed)
    talks = Talks(random, workers=4, limit=limit, partitions=PARTITIONS)
    for _ in range(seconds):
        alive = [name for name, each in talks.talkers.items() if not each.dead]
        talker = talks.talkers[random.choice(alive)]
        talker.need = random.choice([0.0, 0.0, limit / 10, limit / 2, 10 * limit])
        fate = random.random()
        if fate < 0.15:
            index, to = random.randrange(PARTITIONS), random.choice(alive)
            if talks.owned_by(to) and talks.owners.get(index, to) != to:
                talks.move(index, to, after=random.choice([0.0, 0.1, 1.0]))
        elif fate < 0.25:
            talks.hang(talker.name, random.uniform(0.5, 8))
        elif fate < 0.35:
            talker.cut_off = not talker.cut_off
        elif fate < 0.4 and len(alive) > 2:
            heirs = [name for name in alive if name != talker.name and talks.owned_by(name)]
            if heirs:
                talks.kill(talker.name, heirs)
        talks.run(1)
    return talks
