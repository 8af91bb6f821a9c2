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

# A set of tickets (as the bits of a number), and the time from which the borrower may use them.
Part: TypeAlias = tuple[int, float]


@dataclass(frozen=True, slots=True)
class ReceivedLoan:
    """The tickets that one other worker lends to this worker, according to the lender's last note.

    Attributes:
        number: The number of this worker's request that the lender answered.
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
        """Forget all loans, because the number of partitions, and so every ticket, has changed."""
        self._borrowed.clear()

    def own(self, tickets: int) -> None:
        """Set the tickets that this worker owns now, and remove them from the borrowed tickets.

        This worker may soon lend its own tickets, so it must not also use them as borrowed tickets.
        """
        self._borrowed = {
            lender: replace(known, parts=_without(tickets, known.parts))
            for lender, known in self._borrowed.items()
        }

    def read_notes(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, own: int
    ) -> None:
        """Read the lenders' answers, and use the lent tickets, except the tickets in the set `own`.

        A ticket that the lender's new answer leaves out is not used from now on.
        """
        self._borrowed = {
            lender: known
            for lender, known in self._borrowed.items()
            if known.until > sharing_round.now
        }
        for note in notes:
            self._read_note(note, sharing_round, own)

    def leases(self) -> Iterator[Lease]:
        """Yield sets of borrowed tickets, each with the start and the end of the time to use it."""
        for borrowed in self._borrowed.values():
            for tickets, since in borrowed.parts:
                yield Lease(tickets, since, borrowed.until)

    def followed(self) -> dict[str, int]:
        """Return, by lender, the number of the lender's last answer that this worker has read."""
        return {lender: borrowed.number for lender, borrowed in self._borrowed.items()}

    def _read_note(self, note: RateNote, sharing_round: SharingRound, own: int) -> None:
        loan = note.lent.get(self._worker_id)
        requested_at = sharing_round.written_at.get(loan.number) if loan else None
        known = self._borrowed.get(note.worker_id)
        if loan is None or requested_at is None or (known and loan.number <= known.number):
            return
        kept = [(part & loan.tickets, since) for part, since in known.parts] if known else []
        # Start to use a lent ticket one second after the lender has stopped using it. The lender
        # stops before it writes its note.
        added = (loan.tickets & ~union(part for part, _ in kept), sharing_round.now + WINDOW_S)
        # Count the time of the loan from when this worker wrote its request. The lender counts from
        # when it read the request, which is later. So this worker stops using the tickets before
        # the lender uses them again.
        self._borrowed[note.worker_id] = ReceivedLoan(
            loan.number,
            requested_at + LOAN_S,
            _without(own, (*kept, added)),
        )


def _without(tickets: int, parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple((part & ~tickets, since) for part, since in parts if part & ~tickets)
