"""The ids of published messages in topics with an idempotent filter."""

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

# The most ids that one transaction deletes.
DROP_MAX: Final = 5_000


class IdClaim:
    """Ids that are recorded as published when their transaction ends: only `new` ones."""

    def __init__(self, session: AsyncSession, topic: str, new: Collection[str]) -> None:
        self._session = session
        self._topic = topic
        self.new = frozenset(new)

    async def give_up(self, ids: Collection[str]) -> None:
        """Do not record these after all: they may be published again."""
        given_up = delete(PublishedIdRow).where(
            PublishedIdRow.topic == self._topic, PublishedIdRow.message_id.in_(ids)
        )
        await self._session.execute(given_up)

    async def stored_as(self, ids: Collection[str]) -> Mapping[str, str]:
        """Return the message ids that are stored under these, where they differ."""
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
    """Claim the ids that were not published within `ttl`, for the duration of the block.

    Each comes with the id of its message, if that differs. A concurrent claim of one of them waits
    for the end of the block. They are recorded at the end; after an error, or if the process dies,
    none is.

    Raises:
        TopicNotFoundError: The topic does not exist.
        StorageUnavailableError: The database cannot be reached.
    """
    row = PublishedIdRow
    # In one order everywhere, so that no two claims wait for each other.
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
    """Delete ids beyond the rule's `ttl` or number; return how many, at most DROP_MAX."""
    row = PublishedIdRow
    newest = (
        select(row.recorded_at)
        .where(row.topic == topic)
        .order_by(row.recorded_at.desc())
        .offset(rule.entries_max)
        .limit(1)
        .scalar_subquery()
    )
    # greatest() ignores NULL, the value if there are not too many.
    until = func.greatest(func.clock_timestamp() - rule.ttl, newest)
    old = (
        select(row.topic, row.message_id)
        .where(row.topic == topic, row.recorded_at <= until)
        .limit(DROP_MAX)
        # An id that is being claimed again is not old any more.
        .with_for_update(skip_locked=True)
    )
    async with database.transaction() as session:
        keys = (await session.execute(old)).all()
        if keys:
            key = tuple_(row.topic, row.message_id)
            await session.execute(delete(row).where(key.in_([tuple(each) for each in keys])))
    return len(keys)
