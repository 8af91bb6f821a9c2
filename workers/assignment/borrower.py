"""What a worker borrows of a subscription's rate (pure)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.lender import LOAN_S
from workers.assignment.sharing_round import SharingRound
from workers.delivery.rate import WINDOW_S
from workers.delivery.share import Lease
from workers.delivery.tickets import union

# Tickets, and since when they may be used.
Part: TypeAlias = tuple[int, float]


@dataclass(frozen=True, slots=True)
class ReceivedLoan:
    """The last answer of a lender: tickets with since when they may be used, all until `until`."""

    number: int
    until: float
    parts: tuple[Part, ...]


class Borrower:
    """What one worker borrows, by lender. The last answer of each counts, and no other."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._borrowed: dict[str, ReceivedLoan] = {}

    def __bool__(self) -> bool:
        """Whether there is an answer that counts."""
        return bool(self._borrowed)

    def clear(self) -> None:
        """Forget all: the tickets have another size."""
        self._borrowed.clear()

    def own(self, tickets: int) -> None:
        """These are ours, and may be lent or be another's soon: no loan of them counts any more."""
        self._borrowed = {
            lender: replace(known, parts=_without(tickets, known.parts))
            for lender, known in self._borrowed.items()
        }

    def read_notes(
        self, notes: Collection[RateNote], sharing_round: SharingRound, *, own: int
    ) -> None:
        """Take over what lenders answer but `own` tickets; what is less than before, at once."""
        self._borrowed = {
            lender: known
            for lender, known in self._borrowed.items()
            if known.until > sharing_round.now
        }
        for note in notes:
            self._read_note(note, sharing_round, own)

    def leases(self) -> Iterator[Lease]:
        """What may be used, and when."""
        for borrowed in self._borrowed.values():
            for tickets, since in borrowed.parts:
                yield Lease(tickets, since, borrowed.until)

    def followed(self) -> dict[str, int]:
        """The number of the answer that is followed, by lender."""
        return {lender: borrowed.number for lender, borrowed in self._borrowed.items()}

    def _read_note(self, note: RateNote, sharing_round: SharingRound, own: int) -> None:
        loan = note.lent.get(self._worker_id)
        asked_at = sharing_round.written_at.get(loan.number) if loan else None
        known = self._borrowed.get(note.worker_id)
        if loan is None or asked_at is None or (known and loan.number <= known.number):
            return
        kept = [(part & loan.tickets, since) for part, since in known.parts] if known else []
        # A second after its lender has stopped using it, at the latest before it noted that.
        added = (loan.tickets & ~union(part for part, _ in kept), sharing_round.now + WINDOW_S)
        # It counts from when it read the request: later, so that it waits longer than this.
        self._borrowed[note.worker_id] = ReceivedLoan(
            loan.number,
            asked_at + LOAN_S,
            _without(own, (*kept, added)),
        )


def _without(tickets: int, parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple((part & ~tickets, since) for part, since in parts if part & ~tickets)
