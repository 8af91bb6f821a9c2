"""Stores the ids of published messages, for topics with deduplication."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.topic import Deduplication
from app.domain.errors import TopicNotFoundError
from app.storage.database import Database
from app.storage.tables import PublishedIdRow

# The maximum number of ids that one transaction deletes.
DROP_MAX: Final = 5_000


class IdClaim:
    """The claimed ids. The ids in `new` are recorded as published when the transaction ends."""

    def __init__(self, session: AsyncSession, topic: str, new: Collection[str]) -> None:
        self._session = session
        self._topic = topic
        self.new = frozenset(new)

    async def give_up(self, ids: Collection[str]) -> None:
        """Do not record these ids, because their messages are not stored.

        The ids may be published again.
        """
        given_up = delete(PublishedIdRow).where(
            PublishedIdRow.topic == self._topic, PublishedIdRow.message_id.in_(ids)
        )
        await self._session.execute(given_up)

    async def stored_as(self, ids: Collection[str]) -> Mapping[str, str]:
        """Map each of these published ids to its message's id, if the two ids differ."""
        row = PublishedIdRow
        known = select(row.message_id, row.stored_as).where(
            row.topic == self._topic, row.message_id.in_(ids), row.stored_as.is_not(None)
        )
        found = await self._session.execute(known)
        return {message_id: stored for message_id, stored in found if stored is not None}


@asynccontextmanager
async def claimed_ids(
    database: Database, topic: str, ids: Mapping[str, str | None], *, ttl: timedelta
) -> AsyncIterator[IdClaim]:
    """Claim the ids in `ids` that were not published within `ttl`. The claim ends with the block.

    `ids` maps each id to the id of its message, or to None if the two are equal. If another claim
    has one of the ids, this call waits until the other claim ends. At the end of the block, the
    claimed ids are recorded. After an error, or if the process dies, none of them is recorded.

    Raises:
        TopicNotFoundError: The topic does not exist.
        StorageUnavailableError: The database cannot be reached.
    """
    row = PublishedIdRow
    # Every process inserts ids in the same order, so that two claims cannot deadlock.
    added = insert(row).values(
        [{"topic": topic, "message_id": each, "stored_as": ids[each]} for each in sorted(ids)]
    )
    claimed = added.on_conflict_do_update(
        index_elements=[row.topic, row.message_id],
        set_={"recorded_at": func.clock_timestamp(), "stored_as": added.excluded.stored_as},
        where=row.recorded_at <= func.clock_timestamp() - ttl,
    ).returning(row.message_id)
    async with database.transaction() as session:
        try:
            new = (await session.scalars(claimed)).all()
        except IntegrityError as exc:
            raise TopicNotFoundError(f"Topic {topic} does not exist") from exc
        yield IdClaim(session, topic, new)


async def drop_published_ids(database: Database, topic: str, rule: Deduplication) -> int:
    """Delete ids that are too old or too many for `rule`, at most DROP_MAX; return how many."""
    row = PublishedIdRow
    newest = (
        select(row.recorded_at)
        .where(row.topic == topic)
        .order_by(row.recorded_at.desc())
        .offset(rule.entries_max)
        .limit(1)
        .scalar_subquery()
    )
    # Delete the ids that were recorded up to the later of two times. Ids up to the first time are
    # too old. The second time is that of the newest id that is too many; it is NULL, and ignored,
    # if there are not too many ids.
    until = func.greatest(func.clock_timestamp() - rule.ttl, newest)
    old = (
        select(row.topic, row.message_id)
        .where(row.topic == topic, row.recorded_at <= until)
        .limit(DROP_MAX)
        # Skip an id that another transaction is just claiming again, because this id is not old any
        # more.
        .with_for_update(skip_locked=True)
    )
    async with database.transaction() as session:
        keys = (await session.execute(old)).all()
        if keys:
            key = tuple_(row.topic, row.message_id)
            await session.execute(delete(row).where(key.in_([tuple(each) for each in keys])))
    return len(keys)
