"""One subscription's rate, as one worker holds, lends and borrows it (pure).

The owner of a partition has its tickets. What he does not need he lends to who asks, for LOAN_S:

* The borrower counts them from when he asked, the lender from when he heard it, which is later: so
  the loan is over for the borrower first, whatever happens to their messages, to one of them or to
  the database, and whatever their wall clocks say. Only the speed of monotonic clocks matters.
* The lender stops using tickets before he says that they are lent, and whoever gets tickets, for
  whatever reason, begins with them a second after the one before has stopped.
* Who asks again is answered again: that is the renewal. A smaller answer frees the rest as soon as
  the borrower says that he has heard it, else when the loans are over.
* Tickets of ours that another says he has lent (their owner before, who may be dead) are not ours
  until that loan must be over.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Final

from app.domain.sharing import RateNote
from workers.assignment.borrower import Borrowing
from workers.assignment.demand import Means, borrowing, reserved
from workers.assignment.lender import DRIFT_S, LOAN_S, Block, Lending, Lent
from workers.assignment.sharing_round import Moment
from workers.delivery.rate import CATCH_UP_S, WINDOW_S
from workers.delivery.share import Lease, Share
from workers.delivery.tickets import tickets_of, union

# After so long whatever an owner before us has lent is over, whether we can read of it or not.
OVER_S: Final = LOAN_S + DRIFT_S + WINDOW_S
# The needs of so many rounds count, so that a pause of a second gives nothing away.
ROUNDS_REMEMBERED: Final = 3


class Negotiation:
    """The state of one subscription on one worker. Times are its monotonic clock, in seconds."""

    def __init__(self, subscription_id: str, worker_id: str, *, begun: int = 0) -> None:
        """`begun` is the number of the round before the first that it takes part in."""
        self._id = subscription_id
        self._begun = begun
        self._worker_id = worker_id
        self._limit = 1.0
        self._partitions = 1
        # Owned partitions, each with when it was assigned and from when it may be used.
        self._owned: dict[int, tuple[float, float]] = {}
        self._own_tickets = 0
        self._lending = Lending(worker_id)
        self._borrowing = Borrowing(worker_id)
        # Loans of others that are in our way, by lender, borrower and number.
        self._foreign: dict[tuple[str, str, int], Lent] = {}
        self._needs: deque[float] = deque(maxlen=ROUNDS_REMEMBERED)
        # What was assigned before this is free of loans that we have not heard of.
        self._plain = Share(1.0, 1)
        self._verified = self._settled_at = -inf
        self._held_last = 0
        self._tickets_max = inf

    @property
    def is_shared(self) -> bool:
        """Whether some of the partitions are ours, and others are not."""
        return 0 < len(self._owned) < self._partitions

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to say, unless somebody asks or something is needed."""
        if self._lending or self._borrowing:
            return False
        need = max(self._needs, default=0.0)
        return borrowing(self._means(self._own_tickets), need) == 0

    @property
    def is_over(self) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not (self._owned or self._lending or self._borrowing)

    # ---- owning ---------------------------------------------------------------------------------

    def configure(self, limit: float, partitions: int) -> None:
        """The subscription's limit in requests per second, and its topic's partitions."""
        self._limit = limit
        if partitions == self._partitions:
            return
        # Tickets of another size. Rare enough that all that is owned waits for what is lent.
        blocks = [*self._lending.blocks(), *(lent.block for lent in self._foreign.values())]
        free_at = max((block.free_at for block in blocks), default=-inf)
        self._owned = {i: (at, max(since, free_at)) for i, (at, since) in self._owned.items()}
        self._partitions = partitions
        self._own_tickets = tickets_of(frozenset(self._owned), partitions)
        self._verify(self._verified)
        self._lending.clear()
        self._borrowing.clear()
        self._foreign.clear()

    def own(self, assigned_at: Mapping[int, float], *, verified: float) -> None:
        """Own exactly these partitions of the topic, each assigned at its time.

        `verified`: when the last look at what others say was begun.
        """
        if verified == self._verified and assigned_at.keys() == self._owned.keys():
            return
        pause = WINDOW_S if self._owned else self._first_pause(len(assigned_at))
        self._owned = {
            index: self._owned.get(index, (at, at + pause)) for index, at in assigned_at.items()
        }
        self._own_tickets = tickets_of(frozenset(self._owned), self._partitions)
        self._lending.own(self._own_tickets)
        self._borrowing.own(self._own_tickets)
        self._verify(verified)

    def share(self, now: float) -> Share:
        """What may be sent from now on, unless something is heard."""
        if now >= self._settled_at and self.is_idle and not self._foreign:
            return self._all_own()  # as nearly always
        leases = (*self._own_leases(now), *self._borrowing.leases())
        return Share(self._limit, self._partitions, leases, self._tickets_max)

    def _all_own(self) -> Share:
        leases = (Lease(self._own_tickets),)
        plain = Share(self._limit, self._partitions, leases, self._tickets_max)
        if self._plain != plain:
            self._plain = plain  # the same one for as long as it is so, which is quick to see
        return self._plain

    def fall_silent(self) -> None:
        """Nothing has been heard for long: half of the last share, and never more than is ours."""
        if self.is_shared and self._tickets_max == inf:
            # What is lent comes back to us, so that we have at least half of what we own.
            last = 0 if self.is_idle else self._held_last
            self._tickets_max = max(last, self._own_tickets.bit_count()) / 2

    def _verify(self, verified: float) -> None:
        self._verified = verified
        frees = (self._free_at(*times) for times in self._owned.values())
        self._settled_at = max(frees, default=-inf)

    def _free_at(self, assigned_at: float, since: float) -> float:
        unread = assigned_at > self._verified
        return max(since, assigned_at + OVER_S) if unread else since

    def _first_pause(self, count: int) -> float:
        """Where nothing was ours yet, others may have stopped only now: a little less than them.

        A limiter lets so much more through than its rate, where it starts and where it stops.
        """
        if self._limit < self._partitions:
            return WINDOW_S
        excess = 2 * CATCH_UP_S + 3 / self._limit
        return min(WINDOW_S, excess * self._partitions / max(count, 1))

    def _own_leases(self, now: float) -> Iterator[Lease]:
        """The owned tickets, in parts by when they are free."""
        rest = self._own_tickets
        blocks = [*self._lending.blocks(), *self._blocks_of_others()]
        for block in sorted(blocks, key=lambda block: -block.free_at):
            if block.free_at > now and (tickets := block.tickets & rest):
                yield Lease(tickets, since=block.free_at)
                rest &= ~tickets
        if rest:
            yield Lease(rest)

    def _blocks_of_others(self) -> Iterator[Block]:
        """Owned tickets that owners before us used, or lent, till now."""
        for lent in self._foreign.values():
            yield lent.block
        for index, times in self._owned.items():
            yield Block(tickets_of(frozenset({index}), self._partitions), self._free_at(*times))

    # ---- hearing --------------------------------------------------------------------------------

    def hear(self, notes: Collection[RateNote], moment: Moment, *, verified: float) -> None:
        """Learn what all others have said last; `verified` is when the look at it was begun."""
        self._verify(verified)
        self._tickets_max = inf
        comparable = self._comparable(notes)
        self._borrowing.hear(comparable, moment, own=self._own_tickets)
        self._lending.hear(comparable, moment.now)
        self.hear_of_loans(notes, moment.now)

    def hear_of_loans(self, notes: Collection[RateNote], now: float) -> None:
        """Notice what others lend of our tickets."""
        said = {
            (note.worker_id, borrower, loan.number): loan.outstanding
            for note in self._comparable(notes)
            for borrower, loan in note.lent.items()
            if borrower != self._worker_id
        }
        # The notes of the dead are read again and again: what they say is not new each time.
        known = {
            key: lent
            for key, lent in self._foreign.items()
            if lent.block.free_at > now or key in said
        }
        new = {
            key: Lent(key[2], tickets, now + LOAN_S + DRIFT_S)
            for key, tickets in said.items()
            if tickets & self._own_tickets and key not in known
        }
        self._foreign = known | new

    def _comparable(self, notes: Collection[RateNote]) -> list[RateNote]:
        return [note for note in notes if note.partitions == self._partitions]

    # ---- deciding -------------------------------------------------------------------------------

    def need(self, rate: float) -> None:
        """So many requests per second would do for this round."""
        self._needs.append(rate)

    def decide(
        self, notes: Collection[RateNote], moment: Moment, *, asks: bool = True
    ) -> RateNote | None:
        """Lend, take back and ask by what was needed lately; what to say of it.

        Who has been here for a few rounds only does not know what it can lend. What is lent is not
        in `share` from here on, and must not be used any more before the note is written. None:
        there is nothing to say, and what was said last may be dropped.
        """
        now, need = moment.now, max(self._needs, default=0.0)
        blocked = union(b.tickets for b in self._blocks_of_others() if b.free_at > now)
        own = self._own_tickets & ~blocked
        means = self._means(own)
        if self.is_shared and moment.number >= self._begun + ROUNDS_REMEMBERED:
            self._lending.lend(self._comparable(notes), own, reserve=reserved(means, need), now=now)
        self._held_last = self.share(now).held(now)[0].bit_count()
        return self._note(borrowing(means, need) if asks and self.is_shared else 0, moment)

    def _means(self, own: int) -> Means:
        return Means(self._limit, self._partitions, own.bit_count())

    def _note(self, wanted: int, moment: Moment) -> RateNote | None:
        lent, heard = self._lending.loans(moment.now), self._borrowing.heard()
        if not (wanted or lent or heard):
            return None
        return RateNote(
            subscription_id=self._id,
            worker_id=self._worker_id,
            partitions=self._partitions,
            number=moment.number,
            wanted=wanted,
            lent=lent,
            heard=heard,
        )
