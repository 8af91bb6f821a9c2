"""The database as the store of traces: packs of the stream are stored by day, unchanged."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

import structlog

from app.domain.message import Partition
from app.domain.trace import TraceSource
from app.storage.database import Database
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.traces.days import TraceDays, outdated, over_budget, wanted_days
from app.storage.traces.packs import PackRow, pack_row
from app.storage.traces.recording import TraceLoss, TraceRepository
from app.tracing.buffer import ROWS_PER_PACK
from app.tracing.packs import Pack
from workers.recorder.packs import by_day, joined, require_readable

# The number of packs that are stored in one transaction. A pack has about 500 entries, and to store
# 10,000 entries takes about 50 ms.
PACKS_MAX: Final = 20
# How long packs wait for other packs. A transaction costs as much time as a thousand entries. So
# one transaction stores many packs, and small packs are joined.
LINGER: Final = timedelta(milliseconds=500)
KEEP_EVERY: Final = timedelta(minutes=1)
# If more than this part (0 to 1) of the space for traces is used, a warning is logged.
WARN_AT: Final = 0.8

NO_DAY: Final = "Older than traces are kept, or from the future"
NO_ROOM: Final = "Today's traces alone take the room that all may take"
DROPPED: Final = "At most so many: the log kept them no longer"
WAITING: Final = "They waited in their worker when it was last heard of"

UNREADABLE: Final = "Not in a form that this version knows"

# The known reasons for lost entries: the text of each, and its name in metrics. Losses for other
# reasons are counted in the part of the service in which they happen.
CAUSES: Final[Mapping[str, str]] = {
    NO_DAY: "no-day",
    NO_ROOM: "no-room",
    DROPPED: "dropped",
    UNREADABLE: "unreadable",
}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The errors that are raised by packs of an unknown form.
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError)
_log = structlog.get_logger()


def missed(records: int) -> Pack:
    """Return a pack that reports lost packs, which the log dropped before they were read.

    Its field `lost` is the largest number of entries that the lost packs may have contained.
    """
    return Pack("", time.time_ns() // 1_000, records * ROWS_PER_PACK, DROPPED, {}, ())


@dataclass(slots=True)
class StoredStats:
    """The results of storing entries since the process started.

    Attributes:
        lost: The number of entries that were not stored, by the name of the reason.
        room: Which part (0 to 1) of the space for traces is used; None until it is known.
    """

    lost: Counter[str] = field(default_factory=Counter)
    room: float | None = None


class DatabaseTraces:
    """Stores each pack once, and deletes old packs if they exceed the limits of age and size.

    Entries that may not be stored are counted as lost.
    """

    def __init__(self, database: Database, *, kept: timedelta, bytes_max: int) -> None:
        self._database = database
        self._kept = kept
        self._bytes_max = bytes_max
        # The days (as numbers since 1970) whose entries may be stored. They are known when the
        # database has answered.
        self._days: range = range(0)
        self._full = False
        self._ids: Mapping[TraceSource, int] = {}
        self._ids_of: date | None = None
        self.stats = StoredStats()

    async def positions(self) -> Mapping[Partition, int]:
        """Return the next offset to record for each partition. Create missing tables first.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        if not self._days:
            await self.keep()
        async with self._database.transaction() as session:
            return await RecorderPositions(session).all()

    async def record(
        self, rows: Sequence[Pack], stream: Partition, next_offset: int, *, start: int = 0
    ) -> int | None:
        """Store the packs and the position in one transaction, unless earlier packs are missing.

        Returns:
            None if the packs were stored; otherwise the stored position.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        # Keep the ids of sources only if the packs are stored. After a failure another server may
        # answer, which may not have these ids.
        known, self._ids = self._ids, {}
        ids = await self._source_ids(rows, known)
        packs, losses = list[Pack](), list[TraceLoss]()
        for pack in rows:
            kept, why = self._parted(pack)
            packs += kept
            if pack.lost:
                losses.append(_loss(pack, pack.lost, pack.why))
            if missing := len(pack.rows) - sum(len(each.rows) for each in kept):
                losses.append(_loss(pack, missing, why))
            # Let deliveries run after each pack.
            await asyncio.sleep(0)
        stored = list[PackRow]()
        for pack in joined(packs):
            stored.append(pack_row(pack, ids))
            await asyncio.sleep(0)
        async with self._database.transaction() as session:
            position = await TraceRepository(session).record(
                stored, losses, stream=stream, next_offset=next_offset, start=start
            )
        if position is None:
            self._ids = ids
            for each in losses:
                if cause := CAUSES.get(each.reason):
                    self.stats.lost[cause] += each.entries
        return position

    async def waiting(self, worker: str, entries: int) -> None:
        """Store how many trace entries wait in the worker. The number 0 removes the report."""
        loss = TraceLoss(at=datetime.now(UTC), entries=entries, worker=worker, reason=WAITING)
        async with self._database.transaction() as session:
            await TraceRepository(session).lose(loss)

    async def keep(self) -> None:
        """Create the tables of the next days, and drop days that exceed the limits of age and size.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            days = TraceDays(session)
            await days.hold()
            today = await days.today()
            wanted = wanted_days(today, kept=self._kept)
            await days.make(wanted)
            for day in outdated(await days.all(), today, kept=self._kept):
                await days.drop(day)
                _log.info("traces_dropped", day=day.isoformat(), reason="too old")
            await days.forget_before(datetime.now(UTC) - self._kept)
            await self._make_room(days, today)
        self._days = range(_days_of(wanted[0]), _days_of(wanted[-1]) + 1)

    async def _make_room(self, days: TraceDays, today: date) -> None:
        budget = self._bytes_max
        while (day := over_budget(await days.all(), today, bytes_max=budget)) is not None:
            await days.drop(day)
            _log.warning("traces_dropped", day=day.isoformat(), reason="no room", bytes_max=budget)
            await days.make([day])
        size = sum(each.size for each in await days.all())
        self._full = size > budget
        self.stats.room = size / budget
        if size > budget * WARN_AT:
            _log.warning("traces_room_nearly_used", size=size, bytes_max=budget, full=self._full)

    async def _source_ids(
        self, packs: Iterable[Pack], known: Mapping[TraceSource, int]
    ) -> Mapping[TraceSource, int]:
        today = datetime.now(UTC).date()
        if self._ids_of != today:
            # Look up the ids of all sources again each day. The look-up marks them as still used,
            # so that they are not deleted.
            known, self._ids_of = {}, today
        unknown = {each for pack in packs for each in pack.sources.values()} - known.keys()
        if not unknown:
            return known
        async with self._database.transaction() as session:
            return {**known, **await TraceRepository(session).source_ids(unknown)}

    def _parted(self, pack: Pack) -> tuple[Sequence[Pack], str]:
        """Return the parts of the pack that can be stored, and why its other entries are lost."""
        try:
            require_readable(pack)
        except _UNREADABLE as exc:
            # Log the error, and count the pack's entries as lost. The pack may come from another
            # version.
            _log.error("traces_unreadable", worker=pack.worker, exc_info=exc)
            return (), UNREADABLE
        return ((), NO_ROOM) if self._full else (by_day(pack, self._days), NO_DAY)


def _loss(pack: Pack, entries: int, reason: str) -> TraceLoss:
    at = _EPOCH + timedelta(microseconds=pack.at)
    return TraceLoss(at=at, entries=entries, worker=pack.worker, reason=reason)


def _days_of(day: date) -> int:
    return (day - _EPOCH.date()).days
