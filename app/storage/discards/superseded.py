"""Discards of messages that were sent again, and discarded again: which is the last of a message.

What is sent again has another place in the log than the first discard, and so is another row. Those
of before stay, as the ends of what stood at their places, and are `outdated`: no list has them.
Either may be recorded first: that a copy was sent (by its place, or the mark of its redrive), or
that the copy was discarded. Whoever comes second says of the row of before that it is outdated.
Both lock that row first, in the order of ids: one waits for the other, and neither for ever.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, and_, any_, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.discards.undelivered import Undelivered
from app.domain.replay.retransmission import Sent
from app.storage.tables import RetransmissionSentRow, UndeliveredRow

# Subscription and id of a message as they are stored, and the retransmission of its copy.
Copy = tuple[str, str, str]
# The same, and where in the log one of its records stands.
Place = tuple[str, str, int, int]


class SupersededDiscards:
    """Finds the discards that are not the last of their message."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def recorded(self, ends: Collection[tuple[Copy, Undelivered]]) -> None:
        """These copies have been recorded as discarded, in this transaction."""
        if not ends:
            return
        row = UndeliveredRow
        messages = {copy[:2] for copy, _ in ends}
        # Who is sending them again holds the rows until it is known: it is waited for.
        known = (
            select(row.id, row.outdated_by, row.redrive_id)
            .add_columns(row.subscription_id, row.message_id, row.partition, row.offset)
            .where(tuple_(row.subscription_id, row.message_id).in_(messages))
            .order_by(row.id)
            .with_for_update()
        )
        rows = await self._all(known)
        if len(rows) > len(messages):
            await self._outdate(_earlier(rows, ends, await self._sources(ends)))

    async def sent(self, subscription_id: str, sent: Sequence[Sent]) -> None:
        """These copies have been recorded as sent, in this transaction."""
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
            await self._outdate({row_id: newer[p, o] for row_id, p, o in rows})

    async def retract(self, ends: Mapping[int, int | None]) -> None:
        """The rows `ends` go, each of which is outdated by another, or by none.

        What they had outdated is so by that from now on, or listed again.
        """
        row, end = UndeliveredRow, aliased(UndeliveredRow)
        before = (
            select(row.id, row.outdated_by)
            # By the index of message ids.
            .join(end, and_(end.message_id == row.message_id, end.id == row.outdated_by))
            .where(end.id == any_(literal(list(ends), ARRAY(BigInteger))), row.outdated)
            .order_by(row.id)
            .with_for_update(of=row)
        )
        await self._outdate({row_id: _left(by, ends) for row_id, by in await self._all(before)})

    async def _sources(self, ends: Collection[tuple[Copy, Undelivered]]) -> Mapping[Place, Place]:
        """Where they had been, of those whose retransmission keeps that, and where they are."""
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

    async def _all(self, query: Any) -> Sequence[Any]:  # noqa: ANN401 - rows of columns
        return (await self._session.execute(query)).all()

    async def _outdate(self, before: Mapping[int, int | None]) -> None:
        """These rows are outdated by those, or not at all."""
        if before:
            values = [
                {"id": row_id, "outdated": by is not None, "outdated_by": by}
                for row_id, by in before.items()
            ]
            await self._session.execute(update(UndeliveredRow), values)


def _earlier(
    rows: Sequence[Any],
    ends: Collection[tuple[Copy, Undelivered]],
    sources: Mapping[Place, Place],
) -> Mapping[int, int]:
    """Which of the `rows` of these messages were before which: they are others than the `ends`."""
    ids = {tuple(place): row_id for row_id, _, _, *place in rows}
    copies = {copy: (*copy[:2], end.partition, end.offset) for copy, end in ends}
    its_own = {ids[place] for place in copies.values() if place in ids}
    before = dict[int, int]()
    for row_id, outdated_by, redrive_id, its_id, message_id, *at in rows:
        copy = copies.get((its_id, message_id, redrive_id))
        place = sources.get((its_id, message_id, *at), copy)
        # Of one that was discarded once more where it stood, whose redrive is not known any more.
        by = outdated_by if outdated_by in its_own else ids.get(place or ())
        if by is not None and by != row_id:
            before[row_id] = by
    return before


def _left(by: int | None, gone: Mapping[int, int | None]) -> int | None:
    """What outdates a row that was outdated by that, when the others are gone."""
    while by is not None and by in gone:
        by = gone[by]
    return by
