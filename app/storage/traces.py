"""Traces: recorded by COPY, each entry once, and found by the message's id."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from sqlalchemy import Row, Select, delete, func, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.domain.trace import TraceEntry, TraceSource, TraceStatus
from app.storage.recorder_positions import RecorderPositions
from app.storage.texts import storable
from app.storage.trace_copy import COPY, HEADER, TRAILER
from app.storage.trace_tables import TRACE_LOSSES, TRACE_SOURCES, TRACES, trace_key

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLoss:
    """So many entries of `worker` are not recorded, for `reason`."""

    at: datetime
    entries: int
    worker: str
    reason: str


class TraceRepository:
    """The entries, and what is known to be missing of them."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def source_ids(self, sources: Collection[TraceSource]) -> Mapping[TraceSource, int]:
        """The ids of all of them, made where there are none yet."""
        if not sources:
            return {}
        # In one order: whoever waits for another waits for nobody else.
        ordered = sorted(sources, key=lambda each: (each.topic, each.subscription_id))
        added = upsert(TRACE_SOURCES).values([_source_values(each) for each in ordered])
        seen = {"seen_at": func.clock_timestamp()}
        kept = added.on_conflict_do_update(
            index_elements=["topic", "subscription_id"], set_=seen
        ).returning(TRACE_SOURCES.c.id, TRACE_SOURCES.c.topic, TRACE_SOURCES.c.subscription_id)
        found = {(topic, its): number for number, topic, its in await self._session.execute(kept)}
        return {
            each: found[storable(each.topic), storable(each.subscription_id)] for each in sources
        }

    async def record(
        self,
        parts: Sequence[bytes],
        losses: Sequence[TraceLoss],
        *,
        stream: Partition,
        next_offset: int,
    ) -> bool:
        """Store what stands in `stream` before `next_offset`, and that it is stored: exactly once.

        `parts` are rows as of `app.storage.trace_copy`. False when it was recorded before; then
        nothing changes. StorageUnavailableError, also when a day of theirs has been dropped.
        """
        if not await RecorderPositions(self._session).advance(stream, next_offset):
            return False
        if parts:
            await self._copy(parts)
        if losses:
            await self._session.execute(
                insert(TRACE_LOSSES), [_loss_values(each) for each in losses]
            )
        return True

    async def lose(self, loss: TraceLoss) -> None:
        """Say that so many are lost, in place of what that worker said for that reason before."""
        said = TRACE_LOSSES.c.worker == storable(loss.worker)
        why = TRACE_LOSSES.c.reason == storable(loss.reason)
        await self._session.execute(delete(TRACE_LOSSES).where(said, why))
        if loss.entries:
            await self._session.execute(insert(TRACE_LOSSES).values(_loss_values(loss)))

    async def of_message(
        self,
        message_id: str,
        *,
        topic: str | None = None,
        subscription_id: str | None = None,
        limit: int,
    ) -> Sequence[TraceEntry]:
        """The first `limit` entries of a message, oldest first.

        Those of one topic, if it is given; of its subscriptions, only of one, if that is given.
        """
        query = _entries().where(
            TRACES.c.message_key == trace_key(message_id),
            TRACES.c.message_id == storable(message_id),
        )
        if topic is not None:
            query = query.where(TRACE_SOURCES.c.topic == topic)
        if subscription_id is not None:
            query = query.where(TRACE_SOURCES.c.subscription_id.in_(("", subscription_id)))
        rows = await self._session.execute(query.order_by(TRACES.c.at).limit(limit))
        return [_entry_of(row) for row in rows]

    async def lost(self, since: datetime, until: datetime) -> int:
        """How many entries of that time are known to be missing."""
        query = select(func.coalesce(func.sum(TRACE_LOSSES.c.entries), 0)).where(
            TRACE_LOSSES.c.at >= since, TRACE_LOSSES.c.at < until
        )
        return int(await self._session.scalar(query) or 0)

    async def _copy(self, parts: Sequence[bytes]) -> None:
        connection = await (await self._session.connection()).get_raw_connection()
        driver = connection.driver_connection
        if not isinstance(driver, AsyncConnection):
            raise TypeError(driver)
        try:
            async with driver.cursor() as cursor, cursor.copy(COPY) as copy:
                await copy.write(HEADER)
                for part in parts:
                    await copy.write(part)
                await copy.write(TRAILER)
        except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
            raise StorageUnavailableError(f"The database failed: {_first_line(exc)}") from exc
        except psycopg.errors.CheckViolation as exc:
            raise StorageUnavailableError("A day of traces was dropped meanwhile") from exc


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _source_values(source: TraceSource) -> dict[str, Any]:
    return {
        "topic": storable(source.topic),
        "subscription_id": storable(source.subscription_id),
        "subscription": storable(source.subscription),
    }


def _loss_values(loss: TraceLoss) -> dict[str, Any]:
    return {
        "at": loss.at,
        "entries": loss.entries,
        "worker": storable(loss.worker),
        "reason": storable(loss.reason),
    }


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
