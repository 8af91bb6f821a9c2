"""Undelivered messages, as recorded from their stream."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, Row, case, delete, func, null, select, true
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.errors import ValidationFailedError
from app.domain.message import Partition
from app.domain.undelivered import Undelivered, UndeliveredFilter
from app.domain.voids import Entry, Void
from app.storage.models import UndeliveredRow
from app.storage.recorder_positions import RecorderPositions
from app.storage.texts import storable
from app.storage.undelivered_pages import newest
from app.storage.voids import VoidRepository

PAGE_MAX: Final = 1_000
# One statement drops so many, each with a body of up to two megabytes.
DROP_MAX: Final = 500
# An id is in an index, whose entries PostgreSQL limits to 2,704 bytes; ours have 36 characters, a
# foreign producer's may have any number.
MESSAGE_ID_MAX: Final = 500

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# What a discard is of: one message of one subscription, at its place in the log.
_PLACE: Final = ("subscription_id", "partition", "offset", "message_id")
_OF_END: Final = (
    "discarded_at",
    "reason",
    "status",
    "attempts",
    "body",
    "headers",
    "key",
    "life",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredPage:
    """Undelivered messages, newest first; `after` asks for the next page, None on the last."""

    items: tuple[Undelivered, ...]
    after: str | None


class UndeliveredRepository:
    """The undelivered messages, by the id of their subscription: deleted ones keep theirs."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def record(self, entries: Sequence[Entry], stream: Partition, next_offset: int) -> bool:
        """Store what stands in `stream` before `next_offset`, and that it is stored: exactly once.

        False when that was recorded before; then nothing changes. A message that is discarded
        again, because its worker died before that was committed, or somebody went back in the log,
        stays one row, which says how it ended last; one that is void goes, or does not come. What
        PostgreSQL's text cannot hold (zero characters, lone surrogates) is replaced, and an id cut
        at MESSAGE_ID_MAX characters.
        """
        if not await RecorderPositions(self._session).advance(stream, next_offset):
            return False
        discards = list[Undelivered]()
        for entry in entries:
            if isinstance(entry, Void):
                # Of the same message another discard may follow, which counts.
                await self._add(discards)
                discards.clear()
                await VoidRepository(self._session).record(entry)
            else:
                discards.append(entry)
        await self._add(discards)
        return True

    async def _add(self, discards: Sequence[Undelivered]) -> None:
        counting = await VoidRepository(self._session).counting(discards)
        if counting:
            await self._session.execute(_newest_end(), [_values(each) for each in counting])

    async def last(self, subscription_id: str) -> Undelivered | None:
        """The newest, if there is any."""
        page = await self.page(UndeliveredFilter(subscription_id=subscription_id), limit=1)
        return page.items[0] if page.items else None

    async def page(
        self, asked: UndeliveredFilter, *, limit: int, after: str | None = None
    ) -> UndeliveredPage:
        """The newest `limit` (at most PAGE_MAX) of those that are asked for, from `after` on.

        What is recorded while someone pages moves nothing from page to page; only a message that is
        discarded again meanwhile moves to the first. ValidationFailedError: `after` is not from a
        page.
        """
        size = max(1, min(limit, PAGE_MAX))
        if asked.message_id is not None:
            asked = replace(asked, message_id=storable(asked.message_id[:MESSAGE_ID_MAX]))
        before = None if after is None else _decoded(after)
        connection = await self._session.connection()
        rows = await newest(connection, asked, limit=size + 1, before=before)
        items = tuple(undelivered_of(row) for row in rows[:size])
        return UndeliveredPage(
            items=items, after=_encoded(rows[size - 1]) if len(rows) > size else None
        )

    async def drop_older(self, kept: timedelta) -> int:
        """Drop discards from before that time, at most DROP_MAX; how many there were.

        They are looked for topic by topic, in the order of an index: it costs what is dropped, and
        a look for each topic, however many are kept.
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
    # What was sent again before this end has ended so: it may be sent again.
    sent = row.redriven_at > end.discarded_at
    return new.on_conflict_do_update(
        index_elements=_PLACE,
        set_={
            **{name: end[name] for name in _OF_END},
            "redriven_at": case((sent, row.redriven_at), else_=null()),
            "redrive_id": case((sent, row.redrive_id), else_=null()),
        },
        where=end.discarded_at > row.discarded_at,
    )


def _topics() -> CTE:
    """The topics that have discards: each is the next after the one before it, in an index."""
    found = select(func.min(UndeliveredRow.topic).label("topic")).cte("topics", recursive=True)
    following = select(func.min(UndeliveredRow.topic)).where(UndeliveredRow.topic > found.c.topic)
    return found.union_all(select(following.scalar_subquery()).where(found.c.topic.is_not(None)))


def _encoded(row: Row[Any]) -> str:
    microseconds = (row.discarded_at - _EPOCH) // _MICROSECOND
    return base64.urlsafe_b64encode(f"{microseconds}.{row.id}".encode()).decode().rstrip("=")


def _decoded(after: str) -> tuple[datetime, int]:
    try:
        text = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()
        microseconds, row_id = map(int, text.split("."))
        # OverflowError, as for the time: PostgreSQL has no larger ids.
        row_id.to_bytes(8, signed=True)
        return _EPOCH + microseconds * _MICROSECOND, row_id
    except (ValueError, OverflowError, binascii.Error) as exc:
        raise ValidationFailedError.of("after", "must be from the page before") from exc


def _values(undelivered: Undelivered) -> dict[str, Any]:
    return {
        "subscription_id": storable(undelivered.subscription_id),
        "topic": storable(undelivered.topic),
        "subscription": storable(undelivered.subscription),
        "message_id": storable(undelivered.message_id[:MESSAGE_ID_MAX]),
        "discarded_at": undelivered.discarded_at,
        # Reasons quote subscribers, and ids and headers may be a foreign producer's.
        "reason": storable(undelivered.reason),
        "status": undelivered.status,
        "attempts": undelivered.attempts,
        "partition": undelivered.partition,
        "offset": undelivered.offset,
        "body": undelivered.body,
        "headers": [[storable(name), storable(value)] for name, value in undelivered.headers],
        "key": undelivered.key,
        "life": storable(undelivered.life) or None,
    }


def conditions(
    *, since: datetime | None, until: datetime | None, reason: str | None
) -> Iterator[ColumnElement[bool]]:
    """Those of discards at or after `since` and before `until`, for a reason with that part."""
    if since is not None:
        yield UndeliveredRow.discarded_at >= since
    if until is not None:
        yield UndeliveredRow.discarded_at < until
    if reason is not None:
        yield UndeliveredRow.reason.icontains(storable(reason), autoescape=True)


def undelivered_of(row: UndeliveredRow | Row[Any]) -> Undelivered:
    """The discard of a row, which may be one of the table's columns."""
    return Undelivered(
        subscription_id=row.subscription_id,
        topic=row.topic,
        subscription=row.subscription,
        message_id=row.message_id,
        discarded_at=row.discarded_at,
        reason=row.reason,
        status=row.status,
        attempts=row.attempts,
        partition=row.partition,
        offset=row.offset,
        body=row.body,
        headers=tuple((name, value) for name, value in row.headers),
        key=row.key,
        redriven_at=row.redriven_at,
        life=row.life or "",
    )
