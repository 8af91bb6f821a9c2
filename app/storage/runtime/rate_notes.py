"""Stores the notes by which workers share the rates of subscriptions."""

import json
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.runtime.rate_sharing import Loan, RateNote
from app.storage.tables import Json, RateNoteRow

# Notes that are older than this are not read. The notes of a dead worker matter only for some
# seconds.
READ_WITHIN: Final = timedelta(minutes=1)
# The maximum number of rows in one statement.
ROWS_MAX: Final = 5_000

_WRITE: Final = text("""
INSERT INTO rate_notes (subscription_id, worker_id, partitions, number, wanted, lent, followed)
SELECT note.subscription_id, note.worker_id, note.partitions, note.number, note.wanted,
       CAST(note.lent AS jsonb), CAST(note.followed AS jsonb)
  FROM unnest(CAST(:subscription_id AS text[]), CAST(:worker_id AS text[]),
              CAST(:partitions AS int[]), CAST(:number AS bigint[]), CAST(:wanted AS int[]),
              CAST(:lent AS text[]), CAST(:followed AS text[]))
       AS note (subscription_id, worker_id, partitions, number, wanted, lent, followed)
ON CONFLICT (subscription_id, worker_id) DO UPDATE SET
  partitions = excluded.partitions, number = excluded.number, wanted = excluded.wanted,
  lent = excluded.lent, followed = excluded.followed,
  seen_at = clock_timestamp()
""")


_OTHERS: Final = select(
    RateNoteRow.subscription_id,
    RateNoteRow.worker_id,
    RateNoteRow.partitions,
    RateNoteRow.number,
    RateNoteRow.wanted,
    RateNoteRow.lent,
    RateNoteRow.followed,
).where(
    RateNoteRow.worker_id != bindparam("reader"),
    RateNoteRow.seen_at > func.clock_timestamp() - READ_WITHIN,
)


class RateNoteRepository:
    """The last note of each worker about each of its subscriptions.

    The table has no foreign key. So if one note is about a subscription that was just deleted, the
    other notes of the statement are still stored.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def others(self, worker_id: str) -> list[RateNote]:
        """Return the notes of all other workers from the last minute."""
        found = await self._session.execute(_OTHERS, {"reader": worker_id})
        return [_note_of(each._asdict()) for each in found]

    async def write(self, notes: Collection[RateNote]) -> None:
        """Store notes of one worker.

        Each note replaces the worker's last note about that subscription.
        """
        rows = [_values(note) for note in notes]
        for start in range(0, len(rows), ROWS_MAX):
            chunk = rows[start : start + ROWS_MAX]
            columns = {name: [row[name] for row in chunk] for name in chunk[0]}
            await self._session.execute(_WRITE, columns)

    async def drop(self, worker_id: str, subscription_ids: Collection[str]) -> None:
        """Delete the worker's notes about these subscriptions."""
        row = RateNoteRow
        await self._session.execute(
            delete(row).where(
                row.worker_id == worker_id, row.subscription_id.in_(list(subscription_ids))
            )
        )

    async def prune(self, within: timedelta) -> None:
        """Delete notes that were not renewed within the time `within`."""
        old = RateNoteRow.seen_at < func.clock_timestamp() - within
        await self._session.execute(delete(RateNoteRow).where(old))


def _values(note: RateNote) -> dict[str, Any]:
    lent = {
        borrower: [loan.number, f"{loan.tickets:x}", f"{loan.outstanding:x}"]
        for borrower, loan in note.lent.items()
    }
    return {
        "subscription_id": note.subscription_id,
        "worker_id": note.worker_id,
        "partitions": note.partitions,
        "number": note.number,
        "wanted": note.wanted,
        "lent": json.dumps(lent),
        "followed": json.dumps(dict(note.followed)),
    }


def _note_of(values: dict[str, Any]) -> RateNote:
    return RateNote(**values | {"lent": _lent_of(values["lent"])})


def _lent_of(stored: Json) -> dict[str, Loan]:
    return {
        borrower: Loan(number, int(tickets, 16), int(outstanding, 16))
        for borrower, (number, tickets, outstanding) in stored.items()
    }
