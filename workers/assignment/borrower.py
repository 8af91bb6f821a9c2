"""The part of a subscription's rate that a worker borrows from other workers (pure)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.lender import LOAN_S
from workers.assignment.sharing_round import SharingRound
from workers.delivery.rate import WINDOW_S
from workers.delivery.share import Lease
from workers.delivery.tickets import union

# A set of tickets, and the time from which the borrower may use them.
Part: TypeAlias = tuple[int, float]


@dataclass(frozen=True, slots=True)
class ReceivedLoan:
    """The tickets that one other worker lends to this worker, according to its last note.

    Attributes:
        number: The number of the request of this worker that the lender answered.
        until: When the loan ends, on this worker's monotonic clock.
        parts: Sets of tickets, each with the time from which this worker may use them.
    """

    number: int
    until: float
    parts: tuple[Part, ...]


class Borrower:
    """The tickets that one worker borrows. Only the last answer of each lender counts."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._borrowed: dict[str, ReceivedLoan] = {}

    def __bool__(self) -> bool:
        """Whether this worker borrows tickets from anyone."""
        return bool(self._borrowed)

    def clear(self) -> None:
        """Forget all loans. The number of partitions, and with it every ticket, has changed."""
        self._borrowed.clear()

    def own(self, tickets: int) -> None:
        """Set the tickets that this worker owns now, and remove them from the borrowed tickets.

        This worker may soon lend these tickets itself, so it must not use them as borrowed ones.
        """
        self._borrowed = {
            lender: replace(known, parts=_without(tickets, known.parts))
            for lender, known in self._borrowed.items()
        }

    def read_notes(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, own: int
    ) -> None:
        """Read the lenders' answers, and use the lent tickets, except those in the set `own`.

        From now on, a ticket is no longer used if the lender's new answer leaves it out.
        """
        self._borrowed = {
            lender: known
            for lender, known in self._borrowed.items()
            if known.until > sharing_round.now
        }
        for note in notes:
            self._read_note(note, sharing_round, own)

    def leases(self) -> Iterator[Lease]:
        """Yield the borrowed tickets, each set with the times from and until which it is usable."""
        for borrowed in self._borrowed.values():
            for tickets, since in borrowed.parts:
                yield Lease(tickets, since, borrowed.until)

    def followed(self) -> dict[str, int]:
        """Return the number of the last answer that this worker has read, by lender."""
        return {lender: borrowed.number for lender, borrowed in self._borrowed.items()}

    def _read_note(self, note: RateNote, sharing_round: SharingRound, own: int) -> None:
        loan = note.lent.get(self._worker_id)
        requested_at = sharing_round.written_at.get(loan.number) if loan else None
        known = self._borrowed.get(note.worker_id)
        if loan is None or requested_at is None or (known and loan.number <= known.number):
            return
        kept = [(part & loan.tickets, since) for part, since in known.parts] if known else []
        # Start to use the loan one second after the lender has stopped using these tickets. The
        # lender stops before it writes its note.
        added = (loan.tickets & ~union(part for part, _ in kept), sharing_round.now + WINDOW_S)
        # Count the time of the loan from when the lender's note was read. The lender counts from
        # later, so the loan is safe.
        self._borrowed[note.worker_id] = ReceivedLoan(
            loan.number,
            requested_at + LOAN_S,
            _without(own, (*kept, added)),
        )


def _without(tickets: int, parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple((part & ~tickets, since) for part, since in parts if part & ~tickets)
