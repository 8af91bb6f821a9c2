"""One subscription's rate, as one worker holds, lends and borrows it (pure).

The owner of a partition has its tickets. What it does not need it lends for LOAN_S to those that
request it:

* The borrower counts that from its request, the lender from when it read the request, which is
  later: so the loan is over for the borrower first, whatever happens to their notes, to one of them
  or to the database, and whatever wall clocks show. Only the speed of monotonic clocks matters.
* The lender stops using tickets before it notes that they are lent, and a worker that gets tickets,
  for whatever reason, begins with them a second after the one before has stopped.
* A further request is answered again: that is the renewal. A smaller answer frees the rest as soon
  as the borrower notes that it has read it, else when the loans are over.
* Tickets of ours that another has lent (their owner before, which may be dead) are not ours until
  that loan must be over.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Final

from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.borrower import Borrower
from workers.assignment.demand import TicketBudget, reserved, tickets_to_borrow
from workers.assignment.lender import DRIFT_S, LOAN_S, Block, GrantedLoan, Lender
from workers.assignment.sharing_round import SharingRound
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
        self._lender = Lender(worker_id)
        self._borrower = Borrower(worker_id)
        # Loans of others that are in our way, by lender, borrower and number.
        self._foreign: dict[tuple[str, str, int], GrantedLoan] = {}
        self._needs: deque[float] = deque(maxlen=ROUNDS_REMEMBERED)
        # What was assigned before this is free of loans that we do not know.
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
        """Whether there is nothing to note, unless there is a request or something is needed."""
        if self._lender or self._borrower:
            return False
        need = max(self._needs, default=0.0)
        return tickets_to_borrow(self._ticket_budget(self._own_tickets), need) == 0

    @property
    def is_over(self) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not (self._owned or self._lender or self._borrower)

    # ---- owning ---------------------------------------------------------------------------------

    def configure(self, limit: float, partitions: int) -> None:
        """The subscription's limit in requests per second, and its topic's partitions."""
        self._limit = limit
        if partitions == self._partitions:
            return
        # Tickets of another size. Rare enough that all that is owned waits for what is lent.
        blocks = [*self._lender.blocks(), *(lent.block for lent in self._foreign.values())]
        free_at = max((block.free_at for block in blocks), default=-inf)
        self._owned = {i: (at, max(since, free_at)) for i, (at, since) in self._owned.items()}
        self._partitions = partitions
        self._own_tickets = tickets_of(frozenset(self._owned), partitions)
        self._verify(self._verified)
        self._lender.clear()
        self._borrower.clear()
        self._foreign.clear()

    def own(self, assigned_at: Mapping[int, float], *, verified: float) -> None:
        """Own exactly these partitions of the topic, each assigned at its time.

        `verified`: when the last reading of the notes of others was begun.
        """
        if verified == self._verified and assigned_at.keys() == self._owned.keys():
            return
        pause = WINDOW_S if self._owned else self._first_pause(len(assigned_at))
        self._owned = {
            index: self._owned.get(index, (at, at + pause)) for index, at in assigned_at.items()
        }
        self._own_tickets = tickets_of(frozenset(self._owned), self._partitions)
        self._lender.own(self._own_tickets)
        self._borrower.own(self._own_tickets)
        self._verify(verified)

    def share(self, now: float) -> Share:
        """What may be sent from now on, unless a note changes that."""
        if now >= self._settled_at and self.is_idle and not self._foreign:
            return self._all_own()  # as nearly always
        leases = (*self._own_leases(now), *self._borrower.leases())
        return Share(self._limit, self._partitions, leases, self._tickets_max)

    def _all_own(self) -> Share:
        leases = (Lease(self._own_tickets),)
        plain = Share(self._limit, self._partitions, leases, self._tickets_max)
        if self._plain != plain:
            self._plain = plain  # the same one for as long as it is so, which is quick to see
        return self._plain

    def fall_silent(self) -> None:
        """No note has been read for long: half of the last share, and never more than is ours."""
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
        blocks = [*self._lender.blocks(), *self._blocks_of_others()]
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

    def read_notes(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, verified: float
    ) -> None:
        """Take over the last notes of all others; `verified` is when reading them was begun."""
        self._verify(verified)
        self._tickets_max = inf
        comparable = self._comparable(notes)
        self._borrower.read_notes(comparable, sharing_round, own=self._own_tickets)
        self._lender.read_notes(comparable, sharing_round.now)
        self.read_loans(notes, sharing_round.now)

    def read_loans(self, notes: Collection[RateNote], now: float) -> None:
        """Notice what others lend of our tickets."""
        noted = {
            (note.worker_id, borrower, loan.number): loan.outstanding
            for note in self._comparable(notes)
            for borrower, loan in note.lent.items()
            if borrower != self._worker_id
        }
        # The notes of the dead are read again and again, and are not new each time.
        known = {
            key: lent
            for key, lent in self._foreign.items()
            if lent.block.free_at > now or key in noted
        }
        new = {
            key: GrantedLoan(key[2], tickets, now + LOAN_S + DRIFT_S)
            for key, tickets in noted.items()
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
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, asks: bool = True
    ) -> RateNote | None:
        """Lend, take back and request by what was needed lately; returns the note of that.

        A worker that has been here for a few rounds only does not know what it can lend. What is
        lent is not in `share` from here on, and must not be used any more before the note is
        written. None: there is nothing to note, and the last note may be dropped.
        """
        now, need = sharing_round.now, max(self._needs, default=0.0)
        blocked = union(b.tickets for b in self._blocks_of_others() if b.free_at > now)
        own = self._own_tickets & ~blocked
        ticket_budget = self._ticket_budget(own)
        if self.is_shared and sharing_round.number >= self._begun + ROUNDS_REMEMBERED:
            self._lender.lend(
                self._comparable(notes), own, reserve=reserved(ticket_budget, need), now=now
            )
        self._held_last = self.share(now).held(now)[0].bit_count()
        return self._note(
            tickets_to_borrow(ticket_budget, need) if asks and self.is_shared else 0, sharing_round
        )

    def _ticket_budget(self, own: int) -> TicketBudget:
        return TicketBudget(self._limit, self._partitions, own.bit_count())

    def _note(self, wanted: int, sharing_round: SharingRound) -> RateNote | None:
        lent, followed = self._lender.loans(sharing_round.now), self._borrower.followed()
        if not (wanted or lent or followed):
            return None
        return RateNote(
            subscription_id=self._id,
            worker_id=self._worker_id,
            partitions=self._partitions,
            number=sharing_round.number,
            wanted=wanted,
            lent=lent,
            followed=followed,
        )
