"""Stores traces by COPY. Each entry is stored once."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection
from sqlalchemy import delete, func, insert
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.domain.trace import TraceSource
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.tables import TRACE_LOSSES, TRACE_SOURCES
from app.storage.texts import storable
from app.storage.traces.packs import COPY, TYPES, PackRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLoss:
    """How many trace entries of a worker are not recorded, and why."""

    at: datetime
    entries: int
    worker: str
    reason: str


class TraceRepository:
    """Stores packs of trace entries, and the numbers of lost entries."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def source_ids(self, sources: Collection[TraceSource]) -> Mapping[TraceSource, int]:
        """Return the ids of all these sources. New sources get an id."""
        if not sources:
            return {}
        # Every process inserts sources in the same order, so that two transactions cannot deadlock.
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
        packs: Sequence[PackRow],
        losses: Sequence[TraceLoss],
        *,
        stream: Partition,
        next_offset: int,
        start: int = 0,
    ) -> int | None:
        """Store these packs and losses exactly once, and up to which offset `stream` is stored.

        `next_offset` is the offset after the last stored record.

        Returns:
            None if the records were stored. Otherwise nothing was changed, and the result is the
            stored position: `next_offset` or higher if these records are stored already, lower than
            `start` if records before these are missing.

        Raises:
            StorageUnavailableError: The database cannot be reached, or the partition of a day was
                dropped.
        """
        positions = RecorderPositions(self._session)
        stored = await positions.advance(stream, start=start, next_offset=next_offset)
        if stored is not None:
            return stored
        if packs:
            await self._copy(packs)
        if losses:
            await self._session.execute(
                insert(TRACE_LOSSES), [_loss_values(each) for each in losses]
            )
        return None

    async def lose(self, loss: TraceLoss) -> None:
        """Store the number of lost entries of a worker.

        The number replaces the worker's last number for the same reason.
        """
        of_worker = TRACE_LOSSES.c.worker == storable(loss.worker)
        why = TRACE_LOSSES.c.reason == storable(loss.reason)
        await self._session.execute(delete(TRACE_LOSSES).where(of_worker, why))
        if loss.entries:
            await self._session.execute(insert(TRACE_LOSSES).values(_loss_values(loss)))

    async def _copy(self, packs: Sequence[PackRow]) -> None:
        connection = await self._session.connection()
        driver = (await connection.get_raw_connection()).driver_connection
        if not isinstance(driver, AsyncConnection):
            raise TypeError(driver)
        try:
            async with driver.cursor() as cursor, cursor.copy(COPY) as copy:
                copy.set_types(TYPES)
                for pack in packs:
                    await copy.write_row(pack)
        except asyncio.CancelledError:
            # Close the connection. It may still be within the COPY, and then a rollback would fail.
            await connection.invalidate()
            raise
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
