"""The newest of the undelivered messages that are asked for, as rows: a page is many of them.

SQLAlchemy would take as long for its statement as the database, the driver and the rows together.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.undelivered import UndeliveredFilter
from app.storage.models import UndeliveredRow
from app.storage.texts import storable

_COLUMNS: Final = ", ".join(f'"{column.name}"' for column in UndeliveredRow.__table__.columns)
_CONDITIONS: Final[Mapping[str, str]] = {
    "subscription_id": "subscription_id = %(subscription_id)s",
    "topic": "topic = %(topic)s",
    "status": "status = %(status)s",
    "key": '"key" = %(key)s',
    "message_id": "message_id = %(message_id)s",
    "since": "discarded_at >= %(since)s",
    "until": "discarded_at < %(until)s",
    "reason": "reason ILIKE %(reason)s",
    "before": "(discarded_at, id) < (%(before)s, %(before_id)s)",
}


async def newest(
    connection: AsyncConnection,
    asked: UndeliveredFilter,
    *,
    limit: int,
    before: tuple[datetime, int] | None = None,
) -> Sequence[Row[Any]]:
    """At most `limit` of them, newest first, with all columns; a message's id is as it is stored.

    `before`: only what comes after the one that was discarded then, and has that id.
    """
    values = {name: value for name, value in _values(asked).items() if value is not None}
    if before is not None:
        values["before"], values["before_id"] = before
    wanted = " AND ".join(_CONDITIONS[name] for name in values if name in _CONDITIONS)
    query = (
        f"SELECT {_COLUMNS} FROM undelivered WHERE {wanted or 'TRUE'}"  # noqa: S608 - of constants
        " ORDER BY discarded_at DESC, id DESC LIMIT %(limit)s"
    )
    return (await connection.exec_driver_sql(query, {**values, "limit": limit})).all()


def _values(asked: UndeliveredFilter) -> dict[str, Any]:
    return {
        "subscription_id": asked.subscription_id,
        # A subscription has one topic. If it were asked for, too, PostgreSQL would take both for
        # rare, and read all that there is of the subscription to sort it.
        "topic": asked.topic if asked.subscription_id is None else None,
        "status": asked.status,
        "key": asked.key,
        "message_id": asked.message_id,
        "since": asked.since,
        "until": asked.until,
        "reason": None if asked.reason is None else f"%{_literal(storable(asked.reason))}%",
    }


def _literal(text: str) -> str:
    """A pattern of LIKE for that text."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
