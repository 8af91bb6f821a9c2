"""Workers that share one subscription's rate, on a clock that the test moves, with many faults.

The workers negotiate with the real code. To read and write notes takes time, or fails without
telling whether it was done. Workers hang and die, and partitions move. At every step, the tickets
that each worker may use are recorded and compared.

As in the service, a worker negotiates in rounds, one after the other. The log decides which worker
owns which partition. It takes a partition from a running worker only when that worker has released
it, and from a hanging or dead worker when its session has ended. A worker that hung for long sends
and writes nothing for two seconds, in which it learns which partitions it has lost.

The service is less exact in two ways. First, a worker that owned no partition may send a little
earlier in the service: its limiter is new, and compensates for that. The check here leaves out the
first seconds of such a worker. Second, a worker of the service releases a partition after
HANDING_OVER_MAX even if its last note is not written yet. Then the new owner learns of a loan one
round late, and may use lent tickets for about a second. Here, no write takes that long.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.negotiation import Negotiation
from workers.assignment.sharing_round import SharingRound
from workers.delivery.rate import WINDOW_S
from workers.delivery.share import Share
from workers.delivery.stall_watchdog import QUIET_S, STALL_S
from workers.delivery.tickets import ticket_count

SUBSCRIPTION = "s"
PARTITIONS = 6
STEP_S = 0.05
# After this time without a heartbeat, other workers get a worker's partitions.
SESSION_S = 6.0


class Trail:
    """The tickets that one worker used in the last second or so."""

    def __init__(self) -> None:
        # Tickets, and the last time at which all of them were used together.
        self._used: deque[tuple[int, float]] = deque()

    def add(self, tickets: int, now: float) -> None:
        if self._used and self._used[-1][0] == tickets:
            self._used.pop()
        self._used.append((tickets, now))
        while self._used[0][1] <= now - (WINDOW_S - STEP_S):
            self._used.popleft()

    def last_use(self, tickets: int) -> float | None:
        """Return when one of these tickets was last used; None if none was."""
        return next((at for used, at in reversed(self._used) if used & tickets), None)


@dataclass(slots=True, kw_only=True)
class Talker:
    """One worker: its clock is wrong by `skew` seconds, and `need` is in requests per second."""

    name: str
    skew: float
    limit: float
    partitions: int
    negotiation: Negotiation = field(init=False)
    share: Share = field(init=False)
    need: float = 0.0
    number: int = 0
    verified: float = float("-inf")
    written_at: dict[int, float] = field(default_factory=dict)
    is_writing: bool = False
    assigned_at: dict[int, float] = field(default_factory=dict)
    dead: bool = False
    hung_until: float = float("-inf")
    quiet_until: float = float("-inf")
    # Until this time, the tickets of the worker are not checked.
    begins_until: float = float("-inf")
    cut_off: bool = False
    trail: Trail = field(default_factory=Trail)

    def __post_init__(self) -> None:
        self._begin()
        self.share = self.negotiation.share(self.skew)

    def own(self, indexes: set[int], now: float) -> None:
        local = now + self.skew
        if not self.assigned_at and self.limit >= self.partitions:
            self.begins_until = now + WINDOW_S
        self.assigned_at = {i: self.assigned_at.get(i, local) for i in indexes}
        self.negotiation.own(self.assigned_at, verified=self.verified)
        self.share = self.negotiation.share(local)
        self.forget_what_is_over()

    def forget_what_is_over(self) -> None:
        if self.negotiation.is_over:
            self._begin()

    def _begin(self) -> None:
        self.negotiation = Negotiation(SUBSCRIPTION, self.name, begun=self.number)
        self.negotiation.configure(self.limit, self.partitions)

    def held(self, now: float) -> int:
        """Return the tickets that the worker may use now, as a bit mask."""
        # A worker without partitions does not deliver for the subscription.
        if self.dead or now < self.quiet_until or not self.assigned_at:
            return 0
        return self.share.held(now + self.skew)[0]


class Talks:
    """Several workers, their notes in a database, and a check that no two use the same ticket."""

    def __init__(self, random: Random, *, workers: int, limit: float, partitions: int) -> None:
        self.random = random
        self.limit = limit
        self.partitions = partitions
        self.now = 0.0
        self.notes: dict[str, RateNote] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.conflicts: list[str] = []
        self.talkers = {name: self._talker(name) for name in (f"w{n}" for n in range(workers))}
        self.owners = {index: f"w{index % workers}" for index in range(partitions)}
        for talker in self.talkers.values():
            talker.own(self.owned_by(talker.name), self.now)
            self.after(random.random(), partial(self._round, talker))

    def _talker(self, name: str) -> Talker:
        skew = self.random.uniform(-1000, 1000)
        return Talker(name=name, skew=skew, limit=self.limit, partitions=self.partitions)

    def owned_by(self, name: str) -> set[int]:
        return {index for index, owner in self.owners.items() if owner == name}

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let this many seconds pass. Check at least every 50 ms which worker uses which ticket."""
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
        """Return the fraction of the rate that a worker may use now."""
        return self.talkers[name].held(self.now).bit_count() / ticket_count(self.partitions)

    # ---- what goes wrong ------------------------------------------------------------------------

    def move(self, index: int, to: str, *, after: float = 0.0) -> None:
        """Give a partition to another worker, `after` seconds after its owner has released it.

        An owner releases a partition only when others can read what it has lent. A hanging owner
        releases nothing.
        """
        before = self.talkers[self.owners[index]]
        if self.now < before.hung_until:
            return
        del self.owners[index]
        before.own(self.owned_by(before.name), self.now)
        self.after(after, partial(self._hand_over, before, {index}, to))

    def kill(self, name: str) -> None:
        """End a worker without a note. When its last write has ended, others get its partitions."""
        self.talkers[name].dead = True
        self._hand_over(self.talkers[name], self._taken(name))

    def hang(self, name: str, seconds: float) -> None:
        """Stop a worker for some seconds. It loses its partitions if its session ends meanwhile.

        A worker that is still learning which partitions it has lost is not stopped again.
        """
        talker = self.talkers[name]
        if self.now < talker.quiet_until:
            return
        talker.hung_until = talker.quiet_until = self.now + seconds
        if seconds > STALL_S:
            talker.quiet_until += QUIET_S
        if seconds > SESSION_S:
            self.after(SESSION_S, partial(self._expire, talker))

    def _expire(self, talker: Talker) -> None:
        """Give the worker's partitions to others.

        The worker learns of that soon after it runs again.
        """
        if talker.dead:
            return
        self._arrive(self._taken(talker.name))
        back = talker.hung_until + self.random.uniform(0, QUIET_S)
        self.after(back - self.now, lambda: talker.own(self.owned_by(talker.name), self.now))

    def _taken(self, name: str) -> set[int]:
        taken = self.owned_by(name)
        for index in taken:
            del self.owners[index]
        return taken

    def _hand_over(self, before: Talker, indexes: Collection[int], to: str | None = None) -> None:
        if before.is_writing:
            self.after(STEP_S, partial(self._hand_over, before, indexes, to))
        else:
            self._arrive(indexes, to)

    def _arrive(self, indexes: Collection[int], to: str | None = None) -> None:
        """Give these partitions to the worker `to`, or to any running one if `to` does not run."""
        running = self.running()
        if not running:
            self.after(STEP_S, partial(self._arrive, indexes, to))
            return
        for index in indexes:
            self.owners[index] = to if to in running else self.random.choice(running)
        for name in {self.owners[index] for index in indexes}:
            self.talkers[name].own(self.owned_by(name), self.now)

    def running(self) -> list[str]:
        """Return the workers that are alive, do not hang, and know which partitions they lost."""
        return [
            name
            for name, each in self.talkers.items()
            if not each.dead and self.now >= each.quiet_until
        ]

    # ---- rounds ---------------------------------------------------------------------------------

    def _round(self, talker: Talker) -> None:
        """Begin the next round of a worker.

        It reads the notes of others, decides, and writes its note.
        """
        if talker.dead:
            return
        if talker.cut_off or self.now < talker.quiet_until:
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
        if self.now < talker.quiet_until:
            self._next_round(talker)
            return
        local = self.now + talker.skew
        talker.number += 1
        sharing_round = SharingRound(talker.number, local, talker.written_at)
        talker.verified = began + talker.skew
        talker.negotiation.read_notes(notes, sharing_round, verified=talker.verified)
        talker.negotiation.need(talker.need)
        note = talker.negotiation.decide(notes, sharing_round)
        talker.share = talker.negotiation.share(local)
        talker.forget_what_is_over()
        talker.written_at[talker.number] = local
        talker.is_writing = True
        self.after(self._delay(), lambda: self._write(talker, note))

    def _write(self, talker: Talker, note: RateNote | None) -> None:
        if self.now < talker.hung_until and self.random.random() < 0.5:
            # The worker was stopped before its write was sent completely.
            self.after(talker.hung_until - self.now, lambda: self._write(talker, note))
            return
        talker.is_writing = False
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
        held = [(talker, talker.held(self.now)) for talker in self.talkers.values()]
        for talker, tickets in held:
            talker.trail.add(tickets, self.now)
        for talker, tickets in held:
            if tickets and self.now >= talker.begins_until:
                self._check(talker, tickets)

    def _check(self, talker: Talker, tickets: int) -> None:
        for other in self.talkers.values():
            at = other.trail.last_use(tickets)
            if other is not talker and at is not None and self.now - at < WINDOW_S - STEP_S:
                conflict = f"{self.now:.2f}: {talker.name} after {other.name} at {at:.2f}"
                self.conflicts.append(conflict)


def hard_times(seed: int, *, limit: float, seconds: int) -> Talks:
    """Run workers whose needs change every second, with random faults; return them for checks."""
    random = Random(seed)
    talks = Talks(random, workers=4, limit=limit, partitions=PARTITIONS)
    for _ in range(seconds):
        alive = [name for name, each in talks.talkers.items() if not each.dead]
        talker = talks.talkers[random.choice(alive)]
        talker.need = random.choice([0.0, 0.0, limit / 10, limit / 2, 10 * limit])
        fate = random.random()
        if fate < 0.15:
            index, to = random.randrange(PARTITIONS), random.choice(alive)
            if talks.owners.get(index, to) != to:
                talks.move(index, to, after=random.choice([0.0, 0.1, 1.0]))
        elif fate < 0.25:
            talks.hang(talker.name, random.uniform(0.5, 8))
        elif fate < 0.35:
            talker.cut_off = not talker.cut_off
        elif fate < 0.4 and len(talks.running()) > 2:
            talks.kill(talker.name)
        talks.run(1)
    return talks
