"""Stores undelivered messages, which the recorder reads from the stream of undelivered messages."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, case, delete, false, func, null, select, true
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.discards.retractions import Entry, Retraction
from app.domain.discards.undelivered import Undelivered, UndeliveredFilter
from app.domain.message import Partition
from app.storage.discards.pages import MESSAGE_ID_MAX, UndeliveredPage, page_of
from app.storage.discards.retractions import RetractionRepository
from app.storage.discards.superseded import Copy, SupersededDiscards
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.tables import UndeliveredRow
from app.storage.texts import storable

# The maximum number of rows that one statement deletes. The limit is low, because a row may have a
# body of two megabytes.
DROP_MAX: Final = 500

# The key of a discard: subscription, position in the log, and message.
_KEY: Final = ("subscription_id", "partition", "offset", "message_id")
_OF_END: Final = (
    "discarded_at",
    "reason",
    "status",
    "last_failure",
    "answer",
    "attempts",
    "body",
    "headers",
    "key",
    "producer_epoch",
)


class UndeliveredRepository:
    """The undelivered messages, by the id of their subscription.

    The subscription itself may already be deleted.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def record(
        self, entries: Sequence[Entry], stream: Partition, next_offset: int, *, start: int = 0
    ) -> int | None:
        """Store these discards exactly once, and also that `stream` is stored up to `next_offset`.

        A message may be discarded twice after its worker crashed, or after a move back in the log.
        Then its row has the last discard. For messages that were sent again, see
        `SupersededDiscards`. A retracted discard is deleted, or not added. Characters that
        PostgreSQL cannot store (zeros, lone surrogates) are replaced, and ids are cut to
        MESSAGE_ID_MAX characters.

        Returns:
            None if the discards were stored. Otherwise nothing was changed, and the result is the
            stored position: `next_offset` or higher if these discards are stored already, lower
            than `start` if discards before these are missing.
        """
        positions = RecorderPositions(self._session)
        stored = await positions.advance(stream, start=start, next_offset=next_offset)
        if stored is not None:
            return stored
        discards = list[Undelivered]()
        for entry in entries:
            if isinstance(entry, Retraction):
                # Write the discards that came before this retraction. A later discard of the same
                # message may follow, and must replace the retracted discard.
                await self._add(discards)
                discards.clear()
                await RetractionRepository(self._session).record(entry)
            else:
                discards.append(entry)
        await self._add(discards)
        return None

    async def _add(self, discards: Sequence[Undelivered]) -> None:
        counting = await RetractionRepository(self._session).counting(discards)
        if counting:
            await self._session.execute(_NEWEST_END, [_values(each) for each in counting])
        copies = [(_copy(each), each) for each in counting if each.retransmission]
        await SupersededDiscards(self._session).recorded(copies)

    async def last(self, subscription_id: str) -> Undelivered | None:
        """Return the newest discard of the subscription, if there is any."""
        page = await self.page(UndeliveredFilter(subscription_id=subscription_id), limit=1)
        return page.items[0] if page.items else None

    async def page(
        self, wanted: UndeliveredFilter, *, limit: int, after: str | None = None
    ) -> UndeliveredPage:
        """Return a page of the undelivered messages that match `wanted`, the newest first."""
        connection = await self._session.connection()
        return await page_of(connection, wanted, limit=limit, after=after)

    async def drop_older(self, kept: timedelta) -> int:
        """Delete discards that are older than `kept`, at most DROP_MAX; return how many.

        Rows are found topic by topic, in the order of an index. So the time depends on the number
        of deleted rows and of topics, and not on the rows that stay.
        """
        topics, row = _topics(), aliased(UndeliveredRow)
        old = (
            select(row.id)
            .where(row.topic == topics.c.topic, row.discarded_at < func.now() - kept)
            .order_by(row.discarded_at)
            .limit(DROP_MAX)
            .lateral("old")
        )
        oldest = select(old.c.id).select_from(topics.join(old, true())).limit(DROP_MAX)
        dropped = (
            delete(UndeliveredRow)
            .where(UndeliveredRow.id.in_(oldest))
            .returning(UndeliveredRow.id)
            .execution_options(synchronize_session=False)
        )
        return len((await self._session.scalars(dropped)).all())


def _newest_end() -> Insert:
    new = insert(UndeliveredRow)
    end, row = new.excluded, UndeliveredRow
    # Remove the mark of the redrive if the redrive was before this discard, so that the message may
    # be redriven again.
    sent = row.redriven_at > end.discarded_at
    return new.on_conflict_do_update(
        index_elements=_KEY,
        set_={
            **{name: end[name] for name in _OF_END},
            "redriven_at": case((sent, row.redriven_at), else_=null()),
            "redrive_id": case((sent, row.redrive_id), else_=null()),
            "superseded": case((sent, row.superseded), else_=false()),
        },
        where=end.discarded_at > row.discarded_at,
    )


# Built once, because each batch of discards needs it, and building it creates a copy of the table's
# columns with reference cycles.
_NEWEST_END: Final = _newest_end()


def _topics() -> CTE:
    """Return the SQL for the topics that have discards.

    The SQL reads one index entry for each topic.
    """
    found = select(func.min(UndeliveredRow.topic).label("topic")).cte("topics", recursive=True)
    following = select(func.min(UndeliveredRow.topic)).where(UndeliveredRow.topic > found.c.topic)
    return found.union_all(select(following.scalar_subquery()).where(found.c.topic.is_not(None)))


def _values(undelivered: Undelivered) -> dict[str, Any]:
    return {
        "subscription_id": storable(undelivered.subscription_id),
        "topic": storable(undelivered.topic),
        "subscription": storable(undelivered.subscription),
        "message_id": storable(undelivered.message_id[:MESSAGE_ID_MAX]),
        "discarded_at": undelivered.discarded_at,
        # Replace characters that PostgreSQL cannot store. Reasons may quote the responses of
        # subscribers, and ids and headers may come from foreign producers.
        "reason": storable(undelivered.reason),
        "status": undelivered.status,
        "last_failure": storable(undelivered.last_failure) or None,
        "answer": storable(undelivered.answer) or None,
        "attempts": undelivered.attempts,
        "partition": undelivered.partition,
        "offset": undelivered.offset,
        "body": undelivered.body,
        "headers": [[storable(name), storable(value)] for name, value in undelivered.headers],
        "key": undelivered.key,
        "producer_epoch": storable(undelivered.producer_epoch) or None,
    }


def _copy(sent_again: Undelivered) -> Copy:
    its_id, message_id = sent_again.subscription_id, sent_again.message_id[:MESSAGE_ID_MAX]
    return storable(its_id), storable(message_id), storable(sent_again.retransmission)


def conditions(
    *, since: datetime | None, until: datetime | None, reason: str | None
) -> Iterator[ColumnElement[bool]]:
    """Yield SQL conditions for discards between two times whose reason contains a given text."""
    if since is not None:
        yield UndeliveredRow.discarded_at >= since
    if until is not None:
        yield UndeliveredRow.discarded_at < until
    if reason is not None:
        yield UndeliveredRow.reason.icontains(storable(reason), autoescape=True)
