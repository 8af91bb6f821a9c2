"""Stores the progress of retransmissions. Each is sent by one worker at a time, with a lease."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, exists, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.message import Record
from app.domain.replay.retransmission import RUN_MAX, MessageRun, RetransmissionState, Sent
from app.domain.replay.sending_rate import Sending
from app.storage.catalogue.rows import subscription_of
from app.storage.discards.pages import undelivered_of
from app.storage.discards.superseded import SupersededDiscards
from app.storage.replay.retransmissions import request_of
from app.storage.sealing import vault_of
from app.storage.tables import (
    RetransmissionRecordRow,
    RetransmissionRow,
    RetransmissionRunRow,
    RetransmissionSentRow,
    SubscriptionRow,
    UndeliveredRow,
)

# The maximum size of the archived records that are in memory at the same time.
RECORDS_BYTES_MAX: Final = 1024 * 1024

_NOW: Final = func.clock_timestamp()
_SENDING: Final = RetransmissionState.SENDING.value
# A quick query: is there a retransmission to send? Each worker runs it every second. The statement
# that takes a retransmission runs only after a yes, because it needs five times as long.
_ANY_SENDING: Final = text("SELECT EXISTS (SELECT FROM retransmissions WHERE state = :state)")


class SendingRepository:
    """The operations for a worker that sends a retransmission."""

    def __init__(self, session: AsyncSession, worker: str) -> None:
        self._session = session
        self._worker = worker

    async def take(self, lease: timedelta) -> Sending | None:
        """Take the oldest retransmission that no worker has, for the time `lease`.

        Return None if there is none. The retransmissions of one subscription are sent one after the
        other.
        """
        if not await self._session.scalar(_ANY_SENDING, {"state": _SENDING}):
            return None
        row, older = RetransmissionRow, aliased(RetransmissionRow)
        before = exists().where(
            older.subscription_id == row.subscription_id,
            older.state == _SENDING,
            tuple_(older.requested_at, older.id) < tuple_(row.requested_at, row.id),
        )
        free = or_(row.lease_until.is_(None), row.lease_until < _NOW)
        oldest = (
            select(row.id)
            .where(row.state == _SENDING, free, ~before)
            .order_by(row.requested_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(row)
            .where(row.id.in_(oldest.scalar_subquery()))
            .values(worker=self._worker, lease_until=_NOW + lease)
            .returning(row)
        )
        found = await self._session.scalar(taken)
        return None if found is None else _sending_of(found)

    async def keep(self, sending: Sending, *, finished: int, lease: timedelta) -> bool:
        """Renew the lease, and store how many messages of the retransmission are finished.

        Return False if the retransmission has ended, or if another worker has taken it.
        """
        kept = self._mine(sending).values(lease_until=_NOW + lease, finished=finished)
        return await self._session.scalar(kept.returning(RetransmissionRow.id)) is not None

    async def written(self, sending: Sending) -> int:
        """Return how many messages of the retransmission were appended to the log and recorded."""
        query = select(RetransmissionRow.written).where(RetransmissionRow.id == sending.id)
        return await self._session.scalar(query) or 0

    async def subscription(self, sending: Sending) -> Subscription | None:
        """Return the current subscription of the retransmission; None if it was deleted."""
        row = await self._session.get(SubscriptionRow, sending.subscription_id)
        return None if row is None else subscription_of(row, vault_of(self._session))

    async def runs(
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]:
        """Return the next `limit` ranges of offsets with chosen messages of a partition.

        The ranges are in order, and begin with the first range that ends after `offset`.
        """
        row = RetransmissionRunRow
        query = (
            select(row)
            .where(
                row.job_id == sending.id,
                row.attempt == sending.attempt,
                row.partition == partition,
                # Each row has a range of at most RUN_MAX offsets. With this lower limit for the
                # start of the range, the database finds the first row by the index.
                row.start > offset - RUN_MAX,
                row.end > offset,
            )
            .order_by(row.start)
            .limit(limit)
        )
        return [_run_of(each) for each in await self._session.scalars(query)]

    async def sources(self, sending: Sending) -> Mapping[int, int]:
        """Return, for each partition with chosen messages, the first offset that is not sent yet.

        This offset may be inside a range of chosen messages.
        """
        run, sent = RetransmissionRunRow, RetransmissionSentRow
        first = (
            select(run.partition, func.min(run.start))
            .where(run.job_id == sending.id, run.attempt == sending.attempt)
            .group_by(run.partition)
        )
        last = (
            select(sent.source_partition, func.max(sent.source_offset) + 1)
            .where(sent.job_id == sending.id)
            .group_by(sent.source_partition)
        )
        offsets = dict((await self._session.execute(first)).tuples().all())
        return offsets | dict((await self._session.execute(last)).tuples().all())

    async def ends(self, sending: Sending) -> Mapping[int, int]:
        """Return the offset after the last message that was appended, by partition of the topic."""
        sent = RetransmissionSentRow
        query = (
            select(sent.partition, func.max(sent.offset) + 1)
            .where(sent.job_id == sending.id)
            .group_by(sent.partition)
        )
        return dict((await self._session.execute(query)).tuples().all())

    async def sent_from(self, sending: Sending, partition: int, offset: int) -> Sequence[int]:
        """Return the offsets of the sent messages in a partition, from `offset` on, in order."""
        sent = RetransmissionSentRow
        query = select(sent.offset).where(
            sent.job_id == sending.id, sent.partition == partition, sent.offset >= offset
        )
        return list(await self._session.scalars(query.order_by(sent.offset)))

    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        """Return the undelivered messages in these rows. Rows that no longer exist are left out."""
        query = select(UndeliveredRow).where(UndeliveredRow.id.in_(rows))
        return {row.id: undelivered_of(row) for row in await self._session.scalars(query)}

    async def archived(
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]:
        """Return the next archived records of the range `run`, from the offset `first` on.

        The result has at most `limit` records. It ends after the record with which its size reaches
        RECORDS_BYTES_MAX.
        """
        row = RetransmissionRecordRow
        next_ones = (
            select(
                row.offset, row.timestamp_ms, row.key, row.value, row.header_names,
                row.header_values,
                (func.sum(row.size).over(order_by=row.offset) - row.size).label("before"),
            )
            .where(
                row.job_id == sending.id,
                row.attempt == sending.attempt,
                row.partition == run.partition,
                row.offset >= first,
                row.offset < run.end,
            )
            .order_by(row.offset)
            .limit(limit)
            .subquery()
        )  # fmt: skip
        query = select(next_ones).where(next_ones.c.before < RECORDS_BYTES_MAX)
        found = await self._session.execute(query.order_by(next_ones.c.offset))
        return [
            Record(offset, timestamp_ms, key, value, list(zip(names, values, strict=True)))
            for offset, timestamp_ms, key, value, names, values, _ in found
        ]

    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool:
        """Record the messages as appended, and mark their discards as sent again.

        If the lease is lost, record nothing, and return False: the worker that has the lease now
        finds in the log what was appended, and counts it.
        """
        mine = select(RetransmissionRow.id).where(*self._is_mine(sending)).with_for_update()
        if await self._session.scalar(mine) is None:
            return False
        rows = [{"job_id": sending.id, **each._asdict()} for each in sent]
        new = insert(RetransmissionSentRow).on_conflict_do_nothing()
        added = await self._session.scalars(
            new.returning(RetransmissionSentRow.source_offset), rows
        )
        written = RetransmissionRow.written + len(added.all())
        await self._session.execute(self._mine(sending).values(written=written))
        await self._claim(sending, sent)
        await self._mark(sending, sent)
        await SupersededDiscards(self._session).sent(sending.subscription_id, sent)
        return True

    async def end(self, sending: Sending, state: RetransmissionState, reason: str | None) -> None:
        """End the retransmission in the state `state`, unless another worker has taken it."""
        values = {"state": state.value, "reason": reason, "ended_at": _NOW, "lease_until": None}
        await self._session.execute(self._mine(sending).values(values))

    async def release(self, sending: Sending) -> None:
        """Release the retransmission, so that any worker may continue it."""
        await self._session.execute(self._mine(sending).values(worker=None, lease_until=None))

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        """Store that the messages at these positions were dropped after they were appended.

        The discards of these messages then count as not sent again. If an appended message was not
        recorded, its discard was never marked, so nothing changes.
        """
        row, sent, whole = UndeliveredRow, RetransmissionSentRow, RetransmissionRow
        await self._session.execute(
            update(row)
            .where(
                whole.id == retransmission_id,
                sent.job_id == whole.id,
                tuple_(sent.partition, sent.offset).in_(positions),
                row.subscription_id == whole.subscription_id,
                row.partition == sent.source_partition,
                row.offset == sent.source_offset,
                row.redrive_id == retransmission_id,
            )
            .values(redriven_at=None, redrive_id=None, superseded=False, superseded_by=None)
            .execution_options(synchronize_session=False)
        )

    async def _claim(self, sending: Sending, sent: Sequence[Sent]) -> None:
        """Lock the discards of these messages in the order of ids, as `SupersededDiscards` does."""
        row = UndeliveredRow
        positions = [(each.source_partition, each.source_offset) for each in sent]
        theirs = select(row.id).where(
            row.subscription_id == sending.subscription_id,
            tuple_(row.partition, row.offset).in_(positions),
        )
        await self._session.execute(theirs.order_by(row.id).with_for_update())

    async def _mark(self, sending: Sending, sent: Sequence[Sent]) -> None:
        # Find the discards by position, because a message may have two discards at different
        # positions. If another retransmission has marked a discard, its mark stays, unless that
        # retransmission was cancelled.
        row, other = UndeliveredRow, RetransmissionRow
        positions = [(each.source_partition, each.source_offset) for each in sent]
        cancelled = select(other.id).where(
            other.subscription_id == sending.subscription_id,
            other.state == RetransmissionState.CANCELLED.value,
        )
        await self._session.execute(
            update(row)
            .where(
                row.subscription_id == sending.subscription_id,
                tuple_(row.partition, row.offset).in_(positions),
                or_(row.redriven_at.is_(None), row.redrive_id.in_(cancelled)),
            )
            .values(redriven_at=_NOW, redrive_id=sending.id)
            .execution_options(synchronize_session=False)
        )

    def _mine(self, sending: Sending) -> Any:  # noqa: ANN401 - an UPDATE of SQLAlchemy
        return update(RetransmissionRow).where(*self._is_mine(sending))

    def _is_mine(self, sending: Sending) -> tuple[ColumnElement[bool], ...]:
        row = RetransmissionRow
        return row.id == sending.id, row.state == _SENDING, row.worker == self._worker


def _sending_of(row: RetransmissionRow) -> Sending:
    request = request_of(row.request)
    return Sending(
        id=row.id,
        attempt=row.attempt,
        subscription_id=row.subscription_id,
        topic=row.topic,
        share=request.share,
        rate=request.rate,
        written=row.written,
        matched=row.matched,
        # Begin at the ends that the partitions had when the retransmission was requested, because
        # none of its messages was appended before.
        begun=dict(enumerate(request.ends)),
    )


def _run_of(row: RetransmissionRunRow) -> MessageRun:
    return MessageRun(
        partition=row.partition,
        start=row.start,
        end=row.end,
        messages=row.messages,
        size=row.size,
        undelivered=row.undelivered,
        archived=row.archived,
    )
