"""Stores retransmissions: requests, states, cancellations, and the messages that jobs choose."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Row, Select, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import RetransmissionNotFoundError
from app.domain.job import Claim, Job, JobState
from app.domain.replay.retransmission import (
    ENDED,
    Counts,
    Request,
    Retransmission,
    RetransmissionState,
    state_of,
)
from app.storage.insight.jobs import OPEN
from app.storage.json_values import from_json, to_json
from app.storage.paging import older_than
from app.storage.tables import (
    JobRow,
    Json,
    RetransmissionRecordRow,
    RetransmissionRow,
    RetransmissionRunRow,
    RetransmissionSentRow,
    UndeliveredRow,
)

PAGE_MAX: Final = 1_000
# The maximum number of positions that one statement deletes. A large retransmission has many
# positions.
DROP_MAX: Final = 10_000
# The maximum number of records with bodies that one statement deletes.
RECORDS_DROP_MAX: Final = 1_000

_NOW: Final = func.clock_timestamp()
_OPEN: Final = (RetransmissionState.REQUESTED.value, RetransmissionState.SENDING.value)


class RetransmissionRepository:
    """The retransmissions. A retransmission has the id of its job, and the job is stored first."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, job: Job, subscription: Subscription, request: Request) -> Retransmission:
        """Store the request for a retransmission. Its job will choose the messages."""
        row = RetransmissionRow(
            id=job.id,
            subscription_id=subscription.id,
            topic=subscription.topic,
            subscription=subscription.name,
            request=to_json(request),
            state=RetransmissionState.REQUESTED.value,
            gone=sum(request.gone),
        )
        self._session.add(row)
        await self._session.flush()
        return await self.get(subscription.id, job.id)

    async def get(self, subscription_id: str, retransmission_id: str) -> Retransmission:
        """Return a retransmission of the subscription, with all its counts.

        Raises:
            RetransmissionNotFoundError: The retransmission does not exist.
        """
        query = _known().where(
            RetransmissionRow.subscription_id == subscription_id,
            RetransmissionRow.id == retransmission_id,
        )
        found = (await self._session.execute(query)).first()
        if found is None:
            message = f"Retransmission {retransmission_id} does not exist"
            raise RetransmissionNotFoundError(message)
        return _retransmission_of(found, discarded=await self._discarded(found[0]))

    async def newest(
        self, subscription_id: str, *, limit: int, after: str | None = None
    ) -> Sequence[Retransmission]:
        """Return the subscription's newest `limit` retransmissions, without counts of discards.

        With `after`, return only retransmissions older than the one with that id.

        Raises:
            ValidationFailedError: No retransmission has the id `after`.
        """
        query = _known().where(RetransmissionRow.subscription_id == subscription_id)
        query = query.order_by(*(each.desc() for each in _AGE)).limit(min(limit, PAGE_MAX))
        if after is not None:
            query = query.where(await older_than(self._session, _AGE, after))
        return [_retransmission_of(found) for found in await self._session.execute(query)]

    async def open_of(self, subscription_id: str) -> Sequence[Retransmission]:
        """Return the subscription's retransmissions that have not ended, the oldest first."""
        row = RetransmissionRow
        query = _known().where(row.subscription_id == subscription_id, row.state.in_(_OPEN))
        found = [_retransmission_of(each) for each in await self._session.execute(query)]
        # Leave out retransmissions whose job has failed. Their row still has an open state, but
        # they have failed with the job.
        still = [each for each in found if each.state not in ENDED]
        return sorted(still, key=lambda each: (each.requested_at, each.id))

    async def chosen(self, claim: Claim, counts: Mapping[str, int], samples: Sequence[Any]) -> None:
        """Store the counts and examples of a retransmission whose job has ended.

        The workers then send the messages that this claim has chosen, unless the retransmission was
        cancelled. The choices of other claims are deleted here. Their records are deleted by
        `drop_records`.
        """
        row, run = RetransmissionRow, RetransmissionRunRow
        others = and_(run.job_id == claim.job_id, run.attempt != claim.attempt)
        await self._session.execute(delete(run).where(others))
        matched = counts.get("messages", 0)
        requested = await self._session.scalar(
            select(row.request).where(row.id == claim.job_id).with_for_update()
        )
        nothing = not matched or (requested or {}).get("dry_run")
        state = RetransmissionState.DONE if nothing else RetransmissionState.SENDING
        await self._session.execute(
            update(row)
            .where(row.id == claim.job_id, row.state == RetransmissionState.REQUESTED.value)
            .values(
                state=state.value,
                attempt=claim.attempt,
                matched=matched,
                size=counts.get("bytes", 0),
                archived=counts.get("archived", 0),
                archived_size=counts.get("archivedBytes", 0),
                gone=counts.get("gone", 0),
                samples=list(samples),
                ended_at=_NOW if nothing else None,
            )
        )

    async def end(self, retransmission_id: str, state: RetransmissionState) -> bool:
        """End the retransmission in the state `state`, unless it has ended already.

        Return whether this call ended it.
        """
        row = RetransmissionRow
        ended = (
            update(row)
            .where(row.id == retransmission_id, row.state.in_(_OPEN))
            .values(state=state.value, ended_at=_NOW, worker=None, lease_until=None)
            .returning(row.id)
        )
        return await self._session.scalar(ended) is not None

    async def drop_positions(self, kept: timedelta) -> int:
        """Delete the positions of messages whose retransmission ended more than `kept` ago.

        Return the number of deleted positions, at most DROP_MAX of each kind. Without the
        positions, the outcome of the messages is unknown.
        """
        ended = RetransmissionRow.ended_at < _NOW - kept
        old = select(RetransmissionRow.id).where(ended)
        dropped = 0
        for row in (RetransmissionSentRow, RetransmissionRunRow):
            key = tuple(row.__table__.primary_key)
            keys = select(*key).where(row.job_id.in_(old)).limit(DROP_MAX)
            gone = delete(row).where(tuple_(*key).in_(keys)).returning(row.job_id)
            dropped += len((await self._session.scalars(gone)).all())
        return dropped

    async def drop_records(self) -> int:
        """Delete records that will not be sent any more; return how many were deleted.

        These are records of ended retransmissions, of ended jobs, or of replaced claims. At most
        RECORDS_DROP_MAX are deleted.
        """
        row, record = RetransmissionRow, RetransmissionRecordRow
        sent = and_(row.state == RetransmissionState.SENDING.value, record.attempt == row.attempt)
        wanted = or_(sent, and_(row.state == RetransmissionState.REQUESTED.value, OPEN))
        key = tuple(record.__table__.primary_key)
        keys = select(*key).join(row, row.id == record.job_id).join(JobRow, JobRow.id == row.id)
        old = keys.where(~wanted).limit(RECORDS_DROP_MAX)
        gone = delete(record).where(tuple_(*key).in_(old)).returning(record.job_id)
        return len((await self._session.scalars(gone)).all())

    async def _discarded(self, row: RetransmissionRow) -> int:
        sent, gone = RetransmissionSentRow, UndeliveredRow
        again = and_(
            gone.subscription_id == row.subscription_id,
            gone.topic == row.topic,
            gone.partition == sent.partition,
            gone.offset == sent.offset,
        )
        positions = select(sent.partition, sent.offset).join(gone, again).distinct()
        query = select(func.count()).select_from(
            positions.where(sent.job_id == row.id).subquery("again")
        )
        return await self._session.scalar(query) or 0


_AGE: Final = (RetransmissionRow.requested_at, RetransmissionRow.id)


def _known() -> Select[RetransmissionRow, str, str | None, Json]:
    known = select(RetransmissionRow, JobRow.state, JobRow.reason, JobRow.counts)
    return known.join(JobRow, JobRow.id == RetransmissionRow.id)


def _retransmission_of(
    found: Row[RetransmissionRow, str, str | None, Json], *, discarded: int = 0
) -> Retransmission:
    row, job_state, job_reason, job_counts = found
    state = state_of(RetransmissionState(row.state), JobState(job_state))
    return Retransmission(
        id=row.id,
        subscription_id=row.subscription_id,
        topic=row.topic,
        subscription=row.subscription,
        request=request_of(row.request),
        state=state,
        requested_at=row.requested_at,
        attempt=row.attempt,
        ended_at=row.ended_at,
        counts=Counts(
            matched=row.matched,
            size=row.size,
            archived=row.archived,
            gone=row.gone,
            untraced=job_counts.get("untraced"),
            written=row.written,
            finished=row.finished,
            discarded=discarded,
        ),
        samples=tuple(row.samples),
        reason=row.reason or job_reason,
    )


def request_of(stored: Mapping[str, Any]) -> Request:
    """Return the request from its stored form."""
    return Request(**from_json(Request, dict(stored)))
