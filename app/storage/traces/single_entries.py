"""Reads traces of earlier versions, which have one entry in each row, until they are dropped."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any, Final

from sqlalchemy import Row, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.trace import TraceEntry, TraceSource, TraceStatus
from app.storage.tables import TRACE_SOURCES, TRACES, trace_key
from app.storage.texts import storable

_MILLISECOND: Final = timedelta(milliseconds=1)


async def recorded_by_rows(
    connection: AsyncConnection, message_id: str, *, limit: int
) -> Sequence[TraceEntry]:
    """Return the first `limit` entries of a message, oldest first."""
    query = _entries().where(
        TRACES.c.message_key == trace_key(message_id),
        TRACES.c.message_id == storable(message_id),
    )
    rows = await connection.execute(query.order_by(TRACES.c.at).limit(limit))
    return [_entry_of(row) for row in rows]


def _entries() -> Select[Any]:
    named = (TRACE_SOURCES.c.topic, TRACE_SOURCES.c.subscription_id, TRACE_SOURCES.c.subscription)
    return select(TRACES, *named).join(TRACE_SOURCES, TRACE_SOURCES.c.id == TRACES.c.source)


def _entry_of(row: Row[Any]) -> TraceEntry:
    found = row._mapping  # noqa: SLF001 - its public name, in spite of the underscore
    return TraceEntry(
        source=TraceSource(
            topic=found["topic"],
            subscription_id=found["subscription_id"],
            subscription=found["subscription"],
        ),
        message_id=found["message_id"],
        at=found["at"].astimezone(UTC),
        status=TraceStatus(found["status"]),
        partition=found["partition"],
        offset=found["offset"],
        attempt=found["attempt"],
        status_code=found["status_code"],
        reason=found["reason"],
        queued=_span(found["queued"]),
        waited=_span(found["waited"]),
        connect=_span(found["connect"]),
        took=_span(found["took"]),
        worker=found["worker"],
        address=found["address"],
        batch_id=found["batch_id"],
        retransmission=found["retransmission"],
    )


def _span(milliseconds: float | None) -> timedelta | None:
    return None if milliseconds is None else milliseconds * _MILLISECOND
