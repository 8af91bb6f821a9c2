"""Discards of messages that were sent again, and discarded again: which is the last of a message.

What is sent again has another place in the log than the first discard, and so is another row. Those
of before stay, as the ends of what stood at their places, and are `outdated`: no list has them.
Either may be recorded first: that a copy was sent (by its place, or the mark of its redrive), or
that the copy was discarded. Whoever comes second says of the row of before that it is outdated.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, any_, literal, select, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.retransmission import Sent
from app.domain.undelivered import Undelivered
from app.storage.models import UndeliveredRow
from app.storage.retransmission_models import RetransmissionSentRow

# Subscription and id of a message as they are stored, and the retransmission of its copy.
Copy = tuple[str, str, str]


class SecondEnds:
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
            select(row.id, row.subscription_id, row.message_id, row.redrive_id)
            .add_columns(row.partition, row.offset)
            .where(tuple_(row.subscription_id, row.message_id).in_(messages))
            .order_by(row.id)
            .with_for_update()
        )
        rows = await self._all(known)
        if len(rows) > len(messages):
            copies, sources = {copy for copy, _ in ends}, await self._sources(ends)
            before = [
                row_id
                for row_id, its_id, message_id, redrive_id, *place in rows
                if (its_id, message_id, redrive_id) in copies
                or (its_id, message_id, *place) in sources
            ]
            await self._outdate(row.id == any_(literal(before, ARRAY(BigInteger))))

    async def sent(self, subscription_id: str, sent: Sequence[Sent]) -> None:
        """These copies have been recorded as sent, in this transaction."""
        row = UndeliveredRow
        sources = {
            (each.partition, each.offset): (each.source_partition, each.source_offset)
            for each in sent
        }
        ended = select(row.partition, row.offset).where(
            row.subscription_id == subscription_id,
            tuple_(row.partition, row.offset).in_(sources),
        )
        places = [sources[partition, offset] for partition, offset in await self._all(ended)]
        if places:
            await self._outdate(
                row.subscription_id == subscription_id,
                tuple_(row.partition, row.offset).in_(places),
            )

    async def _sources(
        self, ends: Collection[tuple[Copy, Undelivered]]
    ) -> set[tuple[str, str, int, int]]:
        """Where they had been, of those whose retransmission keeps that."""
        row = RetransmissionSentRow
        copies = {
            (retransmission, end.partition, end.offset): (its_id, message_id)
            for (its_id, message_id, retransmission), end in ends
        }
        query = select(
            row.job_id, row.partition, row.offset, row.source_partition, row.source_offset
        ).where(tuple_(row.job_id, row.partition, row.offset).in_(copies))
        return {(*copies[job, p, o], *source) for job, p, o, *source in await self._all(query)}

    async def _all(self, query: Any) -> Sequence[Any]:  # noqa: ANN401 - rows of columns
        return (await self._session.execute(query)).all()

    async def _outdate(self, *which: ColumnElement[bool]) -> None:
        outdated = update(UndeliveredRow).where(*which).values(outdated=True)
        await self._session.execute(outdated.execution_options(synchronize_session=False))
