"""Superseded discards: a later discard of the same message takes their place.

A copy that is sent again has another position in the log, so its discard is a separate row. The row
of the earlier discard is kept, but marked as `superseded` and not listed. If the later discard is
retracted, the earlier discard is listed again.

An earlier discard becomes superseded when two facts are recorded: the copy was sent (known by its
position or by the redrive's mark), and the copy was discarded. The two facts may be recorded in any
order. The transaction that records the second fact marks the row of the earlier discard. Each of
the two transactions first locks this row. Rows are locked in the order of their ids, so the
transactions cannot deadlock.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, and_, any_, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.discards.undelivered import Undelivered
from app.domain.replay.retransmission import Sent
from app.storage.tables import RetransmissionSentRow, UndeliveredRow

# A copy of a message that was sent again: the stored ids of its subscription and its message, and
# the id of the retransmission that sent the copy.
Copy = tuple[str, str, str]
# A record of a message: the ids of its subscription and its message, its partition and its offset.
RecordPosition = tuple[str, str, int, int]


class SupersededDiscards:
    """Marks each discard that is not the last discard of its message."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def recorded(self, ends: Collection[tuple[Copy, Undelivered]]) -> None:
        """Mark the earlier discards of messages that were sent again and are now discarded again.

        `ends` has the copies that were sent, each with its new discard. Call this in the
        transaction that stores these new discards.
        """
        if not ends:
            return
        row = UndeliveredRow
        messages = {copy[:2] for copy, _ in ends}
        # If another transaction is sending these messages again, wait for its end, because it has
        # locked the rows of the messages.
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

        `sent` has the copies. Call this in the transaction that records that the copies were sent.
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
        """Update the earlier discards that are superseded by retracted discards.

        If there is a discard that is later than the retracted one, it now supersedes the earlier
        discard. Otherwise the earlier discard is listed again. Call this before the rows of the
        retracted discards are deleted.

        Args:
            ends: Maps the row id of each retracted discard to the id of the row that supersedes it;
                None if there is no such row.
        """
        row, end = UndeliveredRow, aliased(UndeliveredRow)
        before = (
            select(row.id, row.superseded_by)
            # Compare the message ids too, so that PostgreSQL uses the index of message ids.
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
        """Store, for each row in `before`, the row that supersedes it.

        If the value is None, nothing supersedes the row, so the row is listed again.
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
    """Map each row of an earlier discard of these messages to the row that supersedes it."""
    ids = {tuple(position): row_id for row_id, _, _, *position in rows}
    copies = {copy: (*copy[:2], end.partition, end.offset) for copy, end in ends}
    its_own = {ids[position] for position in copies.values() if position in ids}
    before = dict[int, int]()
    for row_id, superseded_by, redrive_id, its_id, message_id, *at in rows:
        copy = copies.get((its_id, message_id, redrive_id))
        position = sources.get((its_id, message_id, *at), copy)
        # Another row may supersede this row already. If that row has one of the new discards of the
        # message, keep it. The mark of a redrive does not matter then.
        by = superseded_by if superseded_by in its_own else ids.get(position or ())
        if by is not None and by != row_id:
            before[row_id] = by
    return before


def _left(by: int | None, gone: Mapping[int, int | None]) -> int | None:
    """Return the row that supersedes a discard, after the rows in `gone` are deleted.

    `by` is the row that supersedes the discard now. If `by` is in `gone`, the result is the row
    that supersedes `by`. If this row is in `gone` too, the search goes on. None if no row is left.
    """
    while by is not None and by in gone:
        by = gone[by]
    return by
