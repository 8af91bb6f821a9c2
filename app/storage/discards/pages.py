"""Pages of undelivered messages, the newest first.

This module uses plain SQL. With SQLAlchemy, building the statement would take as long as all other
work for a page.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.discards.undelivered import TopicOrSubscription, Undelivered, UndeliveredFilter
from app.domain.errors import ValidationFailedError
from app.storage.tables import UndeliveredRow
from app.storage.texts import storable

PAGE_MAX: Final = 1_000
# The size of bodies that a page ends with.
PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
# The maximum length of a stored message id. PostgreSQL limits index entries to 2,704 bytes.
# Angelia's ids have 36 characters; ids of other producers may be longer.
MESSAGE_ID_MAX: Final = 500

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_COLUMNS: Final = ", ".join(f'"{column.name}"' for column in UndeliveredRow.__table__.columns)
_CONDITIONS: Final[Mapping[str, str]] = {
    "subscription_id": "subscription_id = %(subscription_id)s",
    "topic": "topic = %(topic)s",
    # The conditions `of_subscription` and `of_topic` get names. They find the ids by these names in
    # a subquery, so PostgreSQL uses the same indexes as for conditions with ids.
    "of_subscription": (
        "subscription_id = (SELECT id FROM subscriptions"
        " WHERE topic = %(whose_topic)s AND name = %(of_subscription)s)"
    ),
    "of_topic": "topic = (SELECT name FROM topics WHERE name = %(of_topic)s)",
    "status": "status = %(status)s",
    "key": '"key" = %(key)s',
    "message_id": "message_id = %(message_id)s",
    "since": "discarded_at >= %(since)s",
    "until": "discarded_at < %(until)s",
    "reason": "reason ILIKE %(reason)s",
    "text": "position(%(text)s IN body) > 0",
    "before": "(discarded_at, id) < (%(before)s, %(before_id)s)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredPage:
    """Undelivered messages, newest first.

    `after` marks the next page, and is None on the last page.
    """

    items: tuple[Undelivered, ...]
    after: str | None


async def page_of(
    connection: AsyncConnection,
    conditions: UndeliveredFilter,
    *,
    limit: int,
    after: str | None = None,
) -> UndeliveredPage:
    """Return the newest `limit` (at most PAGE_MAX) matching discards after `after`.

    A page ends early, with the message with which its bodies reach PAGE_BYTES_MAX. Each message is
    listed once, with its last discard. New records do not move other records between pages. Only a
    message that is discarded again moves to the first page.

    Raises:
        ValidationFailedError: `after` is not from a page.
    """
    size = max(1, min(limit, PAGE_MAX))
    if conditions.message_id is not None:
        conditions = replace(
            conditions, message_id=storable(conditions.message_id[:MESSAGE_ID_MAX])
        )
    before = None if after is None else _decoded(after)
    rows = await _newest(connection, conditions, limit=size + 1, before=before)
    items = tuple(undelivered_of(row) for row in rows[:size])
    more = bool(rows) and rows[0].found > len(items)
    return UndeliveredPage(items=items, after=_encoded(rows[len(items) - 1]) if more else None)


async def _newest(
    connection: AsyncConnection,
    conditions: UndeliveredFilter,
    *,
    limit: int,
    before: tuple[datetime, int] | None = None,
) -> Sequence[Row[Any]]:
    """Return the newest rows. In each, `found` counts also those that PAGE_BYTES_MAX left out."""
    values = {name: value for name, value in _values(conditions).items() if value is not None}
    if before is not None:
        values["before"], values["before_id"] = before
    given = (_CONDITIONS[name] for name in values if name in _CONDITIONS)
    wanted = " AND ".join(["NOT superseded", *given])
    newest = (
        f"SELECT {_COLUMNS} FROM undelivered WHERE {wanted}"  # noqa: S608 - the statement is made of constants only
        " ORDER BY discarded_at DESC, id DESC LIMIT %(limit)s"
    )
    # The database sends only the bodies of the page. It does not read other bodies for their sizes.
    sized = (
        "SELECT *, count(*) OVER () AS found, sum(octet_length(body))"  # noqa: S608 - as above
        f" OVER (ORDER BY discarded_at DESC, id DESC) AS bytes FROM ({newest}) AS newest"
    )
    query = (
        f"SELECT * FROM ({sized}) AS sized WHERE bytes - octet_length(body) < %(bytes_max)s"  # noqa: S608 - as above
        " ORDER BY discarded_at DESC, id DESC"
    )
    bounds = {"limit": limit, "bytes_max": PAGE_BYTES_MAX}
    return (await connection.exec_driver_sql(query, {**values, **bounds})).all()


def _values(conditions: UndeliveredFilter) -> dict[str, Any]:
    return {
        **_named(conditions.scope),
        "subscription_id": conditions.subscription_id,
        # Leave out the condition for the topic if there is a condition for the subscription. With
        # both conditions, PostgreSQL would expect few matches, and read and sort all discards of
        # the subscription.
        "topic": conditions.topic if conditions.subscription_id is None else None,
        "status": conditions.status,
        "key": conditions.key,
        "message_id": conditions.message_id,
        "text": conditions.text,
        "since": conditions.since,
        "until": conditions.until,
        "reason": None
        if conditions.reason is None
        else f"%{_literal(storable(conditions.reason))}%",
    }


def _named(scope: TopicOrSubscription | None) -> dict[str, str]:
    if scope is None:
        return {}
    if scope.subscription is None:
        return {"of_topic": scope.topic}
    return {"whose_topic": scope.topic, "of_subscription": scope.subscription}


def _literal(text: str) -> str:
    """Return a LIKE pattern for exactly that text, with special characters escaped."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def undelivered_of(row: UndeliveredRow | Row[Any]) -> Undelivered:
    """Return the discard in a row of the table, or in a row of a query with the table's columns."""
    return Undelivered(
        subscription_id=row.subscription_id,
        topic=row.topic,
        subscription=row.subscription,
        message_id=row.message_id,
        discarded_at=row.discarded_at,
        reason=row.reason,
        status=row.status,
        last_failure=row.last_failure or "",
        answer=row.answer or "",
        attempts=row.attempts,
        partition=row.partition,
        offset=row.offset,
        body=row.body,
        headers=tuple(map(tuple, row.headers)),
        key=row.key,
        redriven_at=row.redriven_at,
        producer_epoch=row.producer_epoch or "",
    )


def _encoded(row: Row[Any]) -> str:
    microseconds = (row.discarded_at - _EPOCH) // _MICROSECOND
    return base64.urlsafe_b64encode(f"{microseconds}.{row.id}".encode()).decode().rstrip("=")


def _decoded(after: str) -> tuple[datetime, int]:
    try:
        text = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()
        microseconds, row_id = map(int, text.split("."))
        # Raise OverflowError if the row id has more than 8 bytes, because PostgreSQL has no such
        # ids. A time that is out of range raises the same error.
        row_id.to_bytes(8, signed=True)
        return _EPOCH + microseconds * _MICROSECOND, row_id
    except (ValueError, OverflowError, binascii.Error) as exc:
        raise ValidationFailedError.of("after", "must be from the page before") from exc
