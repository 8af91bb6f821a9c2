"""The partitions of `trace_packs`, one for each day (UTC).

Partitions are created some days before they are needed, and dropped when their day is too long ago.
The partitions of `traces`, which has rows of earlier versions, are dropped in the same way. If the
partitions of all days together take more disk space than allowed, the oldest are dropped too.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import delete, func
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.partitions import add_partition, drop_partition, hold_partitions, partition_sizes
from app.storage.tables import TRACE_LOSSES, TRACE_SOURCES

# How long before its day a partition is created. So nothing is lost if the database is down for a
# day.
AHEAD: Final = timedelta(days=2)
# The size of an empty partition with its indexes. Dropping an empty partition would free no space.
EMPTY_BYTES: Final = 64 * 1024
# The maximum inline size of a row of `trace_packs`, without the body of the pack. The limit is so
# large that the index leads directly to the data, and that PostgreSQL estimates correctly how long
# a scan takes.
INLINE_BYTES: Final = 4_080

_LOCK: Final = "angelia.traces"
_PARENT: Final = "trace_packs"
# The table of traces that earlier versions used.
_EARLIER: Final = "traces"
_DAY: Final = timedelta(days=1)


class TraceDay(NamedTuple):
    """The size of a day's partition in bytes, with its indexes."""

    day: date
    size: int


class TraceDays:
    """Creates, lists and drops the partitions of days, in the session's transaction.

    Only one process at a time may create or drop partitions.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hold(self) -> None:
        """Keep other processes from creating or dropping partitions until this transaction ends."""
        await hold_partitions(self._session, _LOCK)

    async def all(self) -> Sequence[TraceDay]:
        """Return the existing partitions, the oldest first."""
        sizes: dict[date, int] = {}
        for _, day, size in await self._partitions():
            sizes[day] = sizes.get(day, 0) + size
        return [TraceDay(day, sizes[day]) for day in sorted(sizes)]

    async def make(self, days: Sequence[date]) -> None:
        """Create the partitions of these days, if they are missing."""
        there = {day for parent, day, _ in await self._partitions() if parent == _PARENT}
        for day in days:
            if day not in there:
                await self._make(day)

    async def drop(self, day: date) -> None:
        """Drop the partition of that day with all its entries."""
        for parent, each, _ in await self._partitions():
            if each == day:
                await drop_partition(self._session, _name(day, of=parent))

    async def forget_before(self, moment: datetime) -> None:
        """Delete records of lost entries before `moment`, and sources without later entries.

        A source is a topic or a subscription that traces are about.
        """
        await self._session.execute(delete(TRACE_LOSSES).where(TRACE_LOSSES.c.at < moment))
        await self._session.execute(
            delete(TRACE_SOURCES).where(TRACE_SOURCES.c.seen_at < moment - AHEAD)
        )

    async def today(self) -> date:
        """Return the current day by the database's clock."""
        now = await self._session.scalar(func.clock_timestamp().select())
        if not isinstance(now, datetime):
            raise TypeError(now)
        return now.astimezone(UTC).date()

    async def _partitions(self) -> Sequence[tuple[str, date, int]]:
        """Return the partitions with their table names, days and sizes."""
        return [
            (parent, _day_of(name), size)
            for parent in (_PARENT, _EARLIER)
            for name, size in (await partition_sizes(self._session, parent)).items()
        ]

    async def _make(self, day: date) -> None:
        await add_partition(
            self._session,
            _PARENT,
            _name(day),
            values=f"FROM ('{day.isoformat()} 00:00+00')"
            f" TO ('{(day + _DAY).isoformat()} 00:00+00')",
            storage=f"WITH (toast_tuple_target = {INLINE_BYTES})",
        )


def wanted_days(today: date, *, kept: timedelta) -> Sequence[date]:
    """Return the days that must have a partition, the oldest first."""
    first, last = today - kept, today + AHEAD
    return [first + n * _DAY for n in range((last - first).days + 1)]


def outdated(days: Sequence[TraceDay], today: date, *, kept: timedelta) -> Sequence[date]:
    """Return the days whose traces are older than allowed."""
    return [each.day for each in days if each.day < today - kept]


def over_budget(days: Sequence[TraceDay], today: date, *, bytes_max: int) -> date | None:
    """Return the oldest day with data before today, if all days together exceed `bytes_max`.

    Otherwise return None.
    """
    if sum(each.size for each in days) <= bytes_max:
        return None
    return next((each.day for each in days if each.day < today and each.size > EMPTY_BYTES), None)


def _name(day: date, *, of: str = _PARENT) -> str:
    return f"{of}_{day:%Y%m%d}"


def _day_of(name: str) -> date:
    return datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC).date()
