"""One subscription's rate: what one worker holds, lends and borrows (pure).

Workers agree by notes, which they write into the database. The owner of a partition has the
partition's tickets. It lends tickets that it does not need for LOAN_S:

* The borrower counts the time of a loan from its request. The lender counts it from when it read
  the request, which is later. So the loan always ends first for the borrower, even if notes, a
  worker or the database are lost. Wall clocks do not matter, only the speed of monotonic clocks.
* The lender stops using tickets before it writes the note that they are lent. A worker that gets
  tickets for any reason starts to use them one second after their last user has stopped.
* The answer to a further request renews the loan. If that answer has fewer tickets, the tickets
  that are left out become free. They become free when the borrower's note says that it has read the
  answer, or when the loan ends.
* If the previous owner of tickets has lent them, the new owner cannot use them until the time of
  that loan is over. The new owner cannot end the loan earlier, because the previous owner may be
  dead.
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

# The time after which all loans of a previous owner have ended, even loans that this worker could
# not read.
OVER_S: Final = LOAN_S + DRIFT_S + WINDOW_S
# A worker keeps tickets for its largest need in this number of rounds. So a worker whose traffic
# pauses for one second does not lend its tickets.
ROUNDS_REMEMBERED: Final = 3


class Negotiation:
    """What one worker owns, lends and borrows of one subscription's rate.

    Times are seconds on the worker's monotonic clock.
    """

    def __init__(self, subscription_id: str, worker_id: str, *, begun: int = 0) -> None:
        """Create a negotiation. `begun` is the number of the last round before this negotiation."""
        self._id = subscription_id
        self._begun = begun
        self._worker_id = worker_id
        self._limit = 1.0
        self._partitions = 1
        # The partitions that this worker owns. Each has the time of its assignment, and the time
        # from which its tickets may be used.
        self._owned: dict[int, tuple[float, float]] = {}
        self._own_tickets = 0
        self._lender = Lender(worker_id)
        self._borrower = Borrower(worker_id)
        # Loans of tickets that this worker owns now, if other workers have granted them. The keys
        # are lender, borrower and number.
        self._foreign: dict[tuple[str, str, int], GrantedLoan] = {}
        self._needs: deque[float] = deque(maxlen=ROUNDS_REMEMBERED)
        self._plain = Share(1.0, 1)
        # When this worker began to read notes for the last time. If a partition was assigned before
        # this time, all loans of its tickets are known.
        self._verified = self._settled_at = -inf
        self._held_last = 0
        self._tickets_max = inf

    @property
    def is_shared(self) -> bool:
        """Whether this worker owns some of the topic's partitions, but not all."""
        return 0 < len(self._owned) < self._partitions

    @property
    def is_idle(self) -> bool:
        """Whether this worker lends and borrows nothing, and needs no tickets of other workers."""
        if self._lender or self._borrower:
            return False
        need = max(self._needs, default=0.0)
        return tickets_to_borrow(self._ticket_budget(self._own_tickets), need) == 0

    @property
    def is_over(self) -> bool:
        """Whether this worker owns no partition, lends nothing and borrows nothing.

        If true, this object can be deleted.
        """
        return not (self._owned or self._lender or self._borrower)

    # ---- owned tickets --------------------------------------------------------------------------

    def configure(self, limit: float, partitions: int) -> None:
        """Set the subscription's limit in requests per second, and the number of partitions."""
        self._limit = limit
        if partitions == self._partitions:
            return
        # The number of partitions has changed, which is rare. So each ticket stands for another
        # part of the rate now. Use no owned ticket until all old loans have ended.
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
        """Set the partitions that this worker owns, each with its time of assignment.

        `verified` is when this worker began to read the notes of other workers for the last time.
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
        """Return the share of the rate that this worker may use until a note changes it."""
        if now >= self._settled_at and self.is_idle and not self._foreign:
            return self._all_own()  # the usual case: this worker owns all partitions
        leases = (*self._own_leases(now), *self._borrower.leases())
        return Share(self._limit, self._partitions, leases, self._tickets_max)

    def _all_own(self) -> Share:
        leases = (Lease(self._own_tickets),)
        plain = Share(self._limit, self._partitions, leases, self._tickets_max)
        if self._plain != plain:
            # Return the same object as before if the share is unchanged, so that the caller
            # recognises this quickly.
            self._plain = plain
        return self._plain

    def fall_silent(self) -> None:
        """Use at most half of the last share, because no notes could be read for a long time."""
        if self.is_shared and self._tickets_max == inf:
            # Allow at least half of the owned tickets, because lent tickets come back when their
            # loans end.
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
        """Return how long this worker waits before its first request, in seconds.

        The previous owners of this worker's partitions may have stopped sending only now. A limiter
        may exceed its rate a little when it starts and when it stops. The pause balances both
        excesses.
        """
        if self._limit < self._partitions:
            return WINDOW_S
        excess = 2 * CATCH_UP_S + 3 / self._limit
        return min(WINDOW_S, excess * self._partitions / max(count, 1))

    def _own_leases(self, now: float) -> Iterator[Lease]:
        """Yield the owned tickets in sets. Each set has the time from which it may be used."""
        rest = self._own_tickets
        blocks = [*self._lender.blocks(), *self._blocks_of_others()]
        for block in sorted(blocks, key=lambda block: -block.free_at):
            if block.free_at > now and (tickets := block.tickets & rest):
                yield Lease(tickets, since=block.free_at)
                rest &= ~tickets
        if rest:
            yield Lease(rest)

    def _blocks_of_others(self) -> Iterator[Block]:
        """Yield tickets of this worker that other workers may still use.

        These workers are the previous owners of its partitions, and workers that borrowed from
        them. Each set of tickets has the time until which others may use it.
        """
        for lent in self._foreign.values():
            yield lent.block
        for index, times in self._owned.items():
            yield Block(tickets_of(frozenset({index}), self._partitions), self._free_at(*times))

    # ---- reading notes of other workers ---------------------------------------------------------

    def read_notes(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, verified: float
    ) -> None:
        """Take over what the last notes of all other workers say about loans.

        `verified` is when this worker began to read these notes.
        """
        self._verify(verified)
        self._tickets_max = inf
        comparable = self._comparable(notes)
        self._borrower.read_notes(comparable, sharing_round, own=self._own_tickets)
        self._lender.read_notes(comparable, sharing_round.now)
        self.read_loans(notes, sharing_round.now)

    def read_loans(self, notes: Collection[RateNote], now: float) -> None:
        """Store which of the tickets that this worker owns now were lent by other workers."""
        noted = {
            (note.worker_id, borrower, loan.number): loan.outstanding
            for note in self._comparable(notes)
            for borrower, loan in note.lent.items()
            if borrower != self._worker_id
        }
        # Skip loans that are known already. The notes of dead workers are read again in every
        # round.
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

    # ---- deciding what to lend and request ------------------------------------------------------

    def need(self, rate: float) -> None:
        """Store how many requests per second this worker needs, as measured in this round."""
        self._needs.append(rate)

    def decide(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, asks: bool = True
    ) -> RateNote | None:
        """Lend, take back and request tickets by recent needs. Return the note for other workers.

        A worker lends nothing in its first rounds, because it does not know its needs yet. After
        this call, `share` leaves out the lent tickets, because this worker must not use them any
        more when other workers read the note.

        Args:
            notes: The last notes of other workers about this subscription.
            sharing_round: The current round.
            asks: Whether this worker may request tickets in this round.

        Returns:
            None if no note is needed. Then the worker's last note may be deleted.
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
