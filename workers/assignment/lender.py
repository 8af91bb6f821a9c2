"""The part of a subscription's rate that a worker lends to other workers (pure)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.domain.runtime.rate_sharing import Loan, RateNote
from workers.assignment.demand import water_filled
from workers.delivery.rate import WINDOW_S
from workers.delivery.tickets import lowest, union

LOAN_S: Final = 4.0
# The largest expected difference between the monotonic clocks of two workers during one loan, in
# seconds.
DRIFT_S: Final = 0.1


class Block(NamedTuple):
    """Tickets that this worker must not use before the monotonic time `free_at`."""

    tickets: int
    free_at: float


@dataclass(slots=True)
class GrantedLoan:
    """Tickets that this worker has lent to one borrower.

    Attributes:
        number: The number of the borrower's request that this loan answers.
        tickets: The set of lent tickets.
        until: When the loan ends, on this worker's monotonic clock.
    """

    number: int
    tickets: int
    until: float

    @property
    def block(self) -> Block:
        """Return the lent tickets. Their owner may use them one second after the loan has ended."""
        return Block(self.tickets, self.until + WINDOW_S)


class Lender:
    """The tickets that one worker lends. It answers each request of a borrower once."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._lent: dict[str, list[GrantedLoan]] = {}
        # The number of the last request of each other worker, by the worker's id.
        self._requests: dict[str, int] = {}

    def __bool__(self) -> bool:
        """Whether any ticket is lent now, or was lent less than a second ago."""
        return bool(self._lent)

    def blocks(self) -> Iterator[Block]:
        """Yield the tickets that this worker must not use now."""
        for loans in self._lent.values():
            for lent in loans:
                yield lent.block

    def clear(self) -> None:
        """Forget all loans, because the number of partitions, and so every ticket, has changed."""
        self._lent.clear()

    def own(self, tickets: int) -> None:
        """Set the tickets that this worker owns now. Do not renew loans of any other tickets.

        Loans of other tickets end after LOAN_S. Until then the borrower uses the tickets, because
        it does not know that the tickets have another owner.
        """
        for loans in self._lent.values():
            last = loans[-1]
            if last.tickets & ~tickets:
                gone = GrantedLoan(last.number, last.tickets & ~tickets, last.until)
                kept = GrantedLoan(last.number, last.tickets & tickets, last.until)
                loans[-1:] = [gone, kept]

    def read_notes(self, notes: Collection[RateNote], now: float) -> None:
        """Read which answers the borrowers have read last, and end the loans of earlier answers."""
        for note in notes:
            followed = note.followed.get(self._worker_id)
            for lent in self._lent.get(note.worker_id, ()):
                if followed is not None and lent.number < followed:
                    lent.until = min(lent.until, now)
        kept = {
            borrower: [lent for lent in loans if lent.block.free_at > now]
            for borrower, loans in self._lent.items()
        }
        self._lent = {borrower: loans for borrower, loans in kept.items() if loans}

    def lend(self, notes: Collection[RateNote], own: int, *, reserve: int, now: float) -> None:
        """Lend tickets of the set `own` to new requests, but keep `reserve` of them.

        From now on, this worker must not use the lent tickets.
        """
        asking = {note.worker_id: note for note in notes if self._is_new_request(note)}
        self._requests = {note.worker_id: note.number for note in notes}
        out = {borrower: self.outstanding(borrower, now) & own for borrower in self._lent}
        others = sum(out[borrower].bit_count() for borrower in out.keys() - asking.keys())
        available = max(0, own.bit_count() - reserve - others)
        targets = water_filled(
            available, {borrower: note.wanted for borrower, note in asking.items()}
        )
        free = own & ~union(block.tickets for block in self.blocks() if block.free_at > now)
        for borrower, target in targets.items():
            tickets = lowest(out.get(borrower, 0), target)
            more = min(target - tickets.bit_count(), free.bit_count() - reserve)
            added = lowest(free, max(0, more))
            free &= ~added
            self._answer(asking[borrower], tickets | added, now)

    def loans(self, now: float) -> dict[str, Loan]:
        """Return this worker's loans by borrower, for this worker's note."""
        return {
            borrower: Loan(loans[-1].number, loans[-1].tickets, _in_the_way(loans, now))
            for borrower, loans in self._lent.items()
        }

    def outstanding(self, borrower: str, now: float) -> int:
        """Return the set of lent tickets that the borrower may still be using."""
        return union(lent.tickets for lent in self._lent.get(borrower, ()) if lent.until > now)

    def _is_new_request(self, note: RateNote) -> bool:
        wanting = note.wanted > 0 or note.worker_id in self._lent
        return wanting and note.number > self._requests.get(note.worker_id, -1)

    def _answer(self, note: RateNote, tickets: int, now: float) -> None:
        loans = self._lent.get(note.worker_id, [])
        # Answer a request if there are tickets to lend. If there are none, answer only if the last
        # answer lent some tickets. This tells the borrower that the loan of these tickets is not
        # renewed.
        if tickets or any(lent.tickets for lent in loans if lent.number == loans[-1].number):
            answer = GrantedLoan(note.number, tickets, now + LOAN_S + DRIFT_S)
            self._lent.setdefault(note.worker_id, []).append(answer)


def _in_the_way(loans: Iterable[GrantedLoan], now: float) -> int:
    """Return the lent tickets that a borrower may use now, or could use less than a second ago.

    No other worker may use these tickets yet. They may have another owner by now.
    """
    return union(lent.tickets for lent in loans if lent.block.free_at > now)
