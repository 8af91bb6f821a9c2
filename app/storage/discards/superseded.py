"""Superseded discards: a later discard of the same message takes their place.

A copy that is sent again has another position in the log, so its discard is a separate row. The row
of the earlier discard is kept, but marked as `superseded` and not listed. If the later discard is
retracted, the earlier one is listed again. A row becomes superseded when two facts are known: the
copy was sent (known by its position or by the redrive's mark), and the copy was discarded. These
facts may be recorded in any order, and the transaction that records the second one marks the
earlier row. Both transactions lock that row first, in the order of ids, so they cannot deadlock.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, and_, any_, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.discards.undelivered import Undelivered
from app.domain.replay.retransmission import Sent
from app.storage.tables import RetransmissionSentRow, UndeliveredRow

# The ids of subscription and message as they are stored, and the id of the copy's retransmission.
Copy = tuple[str, str, str]
# The ids of subscription and message, and the partition and offset of one of the message's records.
RecordPosition = tuple[str, str, int, int]


class SupersededDiscards:
    """Marks each discard that is not the last discard of its message."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def recorded(self, ends: Collection[tuple[Copy, Undelivered]]) -> None:
        """Mark the earlier discards of messages that were sent again and are now discarded again.

        `ends` has the new discards of the copies that were sent. Call this in the transaction that
        adds them.
        """
        if not ends:
            return
        row = UndeliveredRow
        messages = {copy[:2] for copy, _ in ends}
        # Wait for a transaction that is sending these messages again, because it has locked their
        # rows.
        known = (
            select(row.id, row.superseded_by, row.redrive_id)
            .add_columns(row.subscription_id, row.message_id, row.partition, row.offset)
            .where(tuple_(row.subscription_id, row.message_id).in_(messages))
            .order_by(row.id)
            .with_for_update()
        )
        rows = await self._all(known)
        if len(rows) > len(messages):
            await self._supersede(_earlier(rows, ends, await self._sources(ends)))

    async def sent(self, subscription_id: str, sent: Sequence[Sent]) -> None:
        """Mark the discards of messages that were sent again, if the copy's discard is recorded.

        `sent` has the copies. Call this in the transaction that records that they were sent.
        """
        row = UndeliveredRow
        sources = {
            (each.partition, each.offset): (each.source_partition, each.source_offset)
            for each in sent
        }
        placed = select(row.id, row.partition, row.offset)
        placed = placed.where(row.subscription_id == subscription_id)
        ended = placed.where(tuple_(row.partition, row.offset).in_(sources))
        newer = {sources[p, o]: row_id for row_id, p, o in await self._all(ended)}
        if newer:
            before = placed.where(tuple_(row.partition, row.offset).in_(newer))
            rows = await self._all(before.order_by(row.id))
            await self._supersede({row_id: newer[p, o] for row_id, p, o in rows})

    async def retract(self, ends: Mapping[int, int | None]) -> None:
        """Update earlier discards whose later discards, which supersede them, are retracted.

        An earlier discard is then superseded by a discard that is later still, or listed again.
        Call this before the rows of the retracted discards are deleted.

        Args:
            ends: Maps the row id of each retracted discard to the row that supersedes it, if there
                is one.
        """
        row, end = UndeliveredRow, aliased(UndeliveredRow)
        before = (
            select(row.id, row.superseded_by)
            # Compare message ids too, so that their index is used.
            .join(end, and_(end.message_id == row.message_id, end.id == row.superseded_by))
            .where(end.id == any_(literal(list(ends), ARRAY(BigInteger))), row.superseded)
            .order_by(row.id)
            .with_for_update(of=row)
        )
        await self._supersede({row_id: _left(by, ends) for row_id, by in await self._all(before)})

    async def _sources(
        self, ends: Collection[tuple[Copy, Undelivered]]
    ) -> Mapping[RecordPosition, RecordPosition]:
        """Map the original positions of messages to the positions of their recorded copies."""
        row = RetransmissionSentRow
        copies = {
            (retransmission, end.partition, end.offset): (its_id, message_id)
            for (its_id, message_id, retransmission), end in ends
        }
        query = select(
            row.job_id, row.partition, row.offset, row.source_partition, row.source_offset
        ).where(tuple_(row.job_id, row.partition, row.offset).in_(copies))
        return {
            (*copies[job, p, o], source_p, source_o): (*copies[job, p, o], p, o)
            for job, p, o, source_p, source_o in await self._all(query)
        }

    async def _all(self, query: Any) -> Sequence[Any]:  # noqa: ANN401 - a query for any columns
        return (await self._session.execute(query)).all()

    async def _supersede(self, before: Mapping[int, int | None]) -> None:
        """Store the row that supersedes each row in `before`.

        With None, the row is listed again.
        """
        if before:
            values = [
                {"id": row_id, "superseded": by is not None, "superseded_by": by}
                for row_id, by in before.items()
            ]
            await self._session.execute(update(UndeliveredRow), values)


def _earlier(
    rows: Sequence[Any],
    ends: Collection[tuple[Copy, Undelivered]],
    sources: Mapping[RecordPosition, RecordPosition],
) -> Mapping[int, int]:
    """Map each older row of these messages to the row that supersedes it."""
    ids = {tuple(position): row_id for row_id, _, _, *position in rows}
    copies = {copy: (*copy[:2], end.partition, end.offset) for copy, end in ends}
    its_own = {ids[position] for position in copies.values() if position in ids}
    before = dict[int, int]()
    for row_id, superseded_by, redrive_id, its_id, message_id, *at in rows:
        copy = copies.get((its_id, message_id, redrive_id))
        position = sources.get((its_id, message_id, *at), copy)
        # Keep the row that supersedes this row already, if the message was discarded again at the
        # position of that row. Then a redrive does not matter.
        by = superseded_by if superseded_by in its_own else ids.get(position or ())
        if by is not None and by != row_id:
            before[row_id] = by
    return before


def _left(by: int | None, gone: Mapping[int, int | None]) -> int | None:
    """Return the row that supersedes a discard, after the rows in `gone` are deleted.

    `by` is the row that superseded the discard before. If `by` itself is deleted, the result is the
    row that supersedes `by`, and so on; None if no row is left.
    """
    while by is not None and by in gone:
        by = gone[by]
    return by
