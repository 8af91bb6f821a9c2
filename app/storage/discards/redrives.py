"""Selects, reads and marks undelivered messages for redrives."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, func, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.discards.redrive import Redrivable, RedriveFilter
from app.domain.discards.undelivered import Undelivered
from app.storage.discards.pages import MESSAGE_ID_MAX, undelivered_of
from app.storage.discards.undelivered import conditions
from app.storage.tables import UndeliveredRow
from app.storage.texts import storable


class RedriveRepository:
    """The undelivered messages of a subscription, for redrives."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def choose(
        self, subscription_id: str, wanted: RedriveFilter, *, limit: int, claim: bool = True
    ) -> Sequence[Redrivable]:
        """Return at most `limit` of the messages that match `wanted`, the oldest discards first.

        With `claim`, the messages are locked. Messages that another transaction has locked are
        skipped. So two concurrent redrives never send the same message.
        """
        query = (
            select(
                UndeliveredRow.id,
                UndeliveredRow.message_id,
                UndeliveredRow.discarded_at,
                UndeliveredRow.reason,
                UndeliveredRow.status,
                UndeliveredRow.partition,
                UndeliveredRow.offset,
                func.octet_length(UndeliveredRow.body),
            )
            .where(UndeliveredRow.subscription_id == subscription_id, *_conditions(wanted))
            .order_by(UndeliveredRow.discarded_at, UndeliveredRow.id)
            .limit(limit)
        )
        if claim:
            query = query.with_for_update(skip_locked=True)
        rows = (await self._session.execute(query)).all()
        return [
            Redrivable(
                row=row,
                message_id=message_id,
                discarded_at=discarded_at,
                reason=reason,
                status=status,
                partition=partition,
                offset=offset,
                size=size,
            )
            for row, message_id, discarded_at, reason, status, partition, offset, size in rows
        ]

    async def now(self) -> datetime:
        """Return the time by the database's clock. `mark` stores times by the same clock."""
        now: datetime = (await self._session.execute(select(func.clock_timestamp()))).scalar_one()
        return now

    async def claim(
        self, rows: Collection[int], wanted: RedriveFilter, *, looked_at: datetime
    ) -> Collection[int]:
        """Lock and return those rows that still match and were not sent again since `looked_at`.

        Rows that another transaction has locked are skipped.
        """
        row = UndeliveredRow
        unsent = or_(row.redriven_at.is_(None), row.redriven_at < looked_at)
        query = select(row.id).where(row.id.in_(rows), unsent, *_conditions(wanted))
        found = await self._session.scalars(query.with_for_update(skip_locked=True))
        return set(found.all())

    async def read(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        """Return the discards by row, with bodies and headers, the oldest first."""
        query = (
            select(UndeliveredRow)
            .where(UndeliveredRow.id.in_(rows))
            .order_by(UndeliveredRow.discarded_at, UndeliveredRow.id)
        )
        found = list(await self._session.scalars(query))
        read = {row.id: undelivered_of(row) for row in found}
        for row in found:
            # Remove each row from the session after reading it. Otherwise the session would keep
            # the bodies of a thousand rows in memory.
            self._session.expunge(row)
        return read

    async def mark(self, rows: Collection[int], redrive_id: str) -> None:
        """Mark these rows as sent again now, by the redrive with that id."""
        await self._session.execute(
            update(UndeliveredRow)
            .where(UndeliveredRow.id.in_(rows))
            .values(redriven_at=func.clock_timestamp(), redrive_id=redrive_id)
            .execution_options(synchronize_session=False)
        )


def _conditions(wanted: RedriveFilter) -> list[ColumnElement[bool]]:
    found = [*conditions(since=wanted.since, until=wanted.until, reason=wanted.reason)]
    found.append(~UndeliveredRow.superseded)
    if not wanted.again:
        found.append(UndeliveredRow.redriven_at.is_(None))
    if wanted.key is not None:
        found.append(UndeliveredRow.key == wanted.key)
    if wanted.text is not None:
        found.append(func.position(literal(wanted.text).op("IN")(UndeliveredRow.body)) > 0)
    if wanted.statuses:
        found.append(UndeliveredRow.status.in_(wanted.statuses))
    if wanted.message_ids:
        stored = [storable(each[:MESSAGE_ID_MAX]) for each in wanted.message_ids]
        found.append(UndeliveredRow.message_id.in_(stored))
    return found
