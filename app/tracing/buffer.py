"""Entries of one process, on their way to the traces stream: bounded, and never waited for."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol

import structlog

from app.domain.errors import AngeliaError
from app.domain.message import NewRecord
from app.domain.trace import TraceSource
from app.tracing.packs import Pack, PlainRow, packed

# Entries that wait, packed or not: about 20 MB. Those that find no room are lost, and counted.
ENTRIES_MAX: Final = 100_000
# Packing takes about a millisecond then; deliveries come in between.
ROWS_PER_PACK: Final = 500
PACKS_PER_APPEND: Final = 8
# Before deliveries are committed, so that their commits wait for little.
INTERVAL: Final = timedelta(milliseconds=100)
RETRY_PAUSE: Final = timedelta(seconds=1)

FULL: Final = "The traces stream did not take them in time"

_log = structlog.get_logger()

Append = Callable[[Sequence[NewRecord]], Awaitable[object]]


class OpenAttempts(Protocol):
    """Who began attempts, and knows what to say of one that is still in the air."""

    def still(self, attempt: Any, before: float) -> bool:  # noqa: ANN401 - its own
        """Say that it has begun, if it has before then (monotonic seconds); whether it has."""


class TraceStats(NamedTuple):
    """Entries since the process began."""

    recorded: int
    lost: int


class _Packed(NamedTuple):
    record: NewRecord
    entries: int
    lost: int


class TraceBuffer:
    """Collects rows (`app.tracing.packs`) and appends them to the stream, many to a record.

    An append that fails is repeated: its rows may then be there twice. What finds no room is
    counted, and the stream is told how much that was.
    """

    def __init__(self, append: Append, *, worker: str, entries_max: int = ENTRIES_MAX) -> None:
        self._append = append
        self._worker = worker
        self._entries_max = entries_max
        self._sources: dict[TraceSource, int] = {}
        self._by_number: list[TraceSource] = []
        self._rows: list[PlainRow] = []
        self._packed: deque[_Packed] = deque()
        self._packed_entries = 0
        self._unreported = 0
        self._recorded = 0
        self._lost = 0
        # Of those that were taken, how many wait no more.
        self._gone = 0
        self._given = asyncio.Event()
        self._flushing = asyncio.Lock()
        # Somebody waits for what was added; `_behind` says that there is no use in it for now.
        self._urged = asyncio.Event()
        self._appended = asyncio.Condition()
        self._behind = False
        # Attempts that nothing has been said of so far; whoever adds the first calls `wake`, and
        # who ends one takes it out.
        self.open_attempts: dict[Any, OpenAttempts] = {}
        self._looked_at = 0.0
        # What turns monotonic seconds into those since the epoch.
        self.wall = _wall()

    @property
    def stats(self) -> TraceStats:
        """What became of all entries so far."""
        return TraceStats(self._recorded, self._lost)

    @property
    def waiting(self) -> int:
        """Entries that the stream does not have so far."""
        return len(self._rows) + self._packed_entries

    @property
    def behind(self) -> bool:
        """Whether the stream takes nothing now, or is slower than they come."""
        return self._behind

    def source(self, source: TraceSource) -> int:
        """What rows of `source` begin with."""
        number = self._sources.get(source)
        if number is None:
            number = self._sources[source] = len(self._by_number)
            self._by_number.append(source)
        return number

    def add(self, row: PlainRow) -> None:
        """Take an entry, if there is room."""
        rows = self._rows
        if not rows:
            self._given.set()
        if len(rows) + self._packed_entries < self._entries_max:
            rows.append(row)
        else:
            self._lost += 1
            self._unreported += 1

    def wake(self) -> None:
        """There is something to say, or an attempt in the air."""
        self._given.set()

    async def run(self) -> None:
        """Append what is collected until cancelled."""
        while True:
            await self._given.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._urged.wait()
            if not await self._flush(look=not self._urged.is_set()):
                await asyncio.sleep(RETRY_PAUSE.total_seconds())

    async def until_appended(self, within: timedelta) -> bool:
        """Wait until the stream has all that was added so far; False if that takes longer.

        What is lost is not waited for. While the stream takes nothing, or is slower than somebody
        could wait, the answer is False at once, until it has caught up.
        """
        if self._behind or not self.waiting:
            return not self.waiting
        until = self._gone + self.waiting
        self._urged.set()
        try:
            async with asyncio.timeout(within.total_seconds()), self._appended:
                await self._appended.wait_for(lambda: self._behind or self._gone >= until)
        except TimeoutError:
            self._fall_behind()
        return self._gone >= until

    async def finish(self, within: timedelta) -> None:
        """Append what there is, if that takes no longer."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self.flush()
        except TimeoutError:
            _log.warning("last_traces_not_appended", entries=self.waiting)

    async def flush(self) -> bool:
        """Append all that is collected now; whether the stream has it."""
        return await self._flush(look=True)

    async def _flush(self, *, look: bool) -> bool:
        async with self._flushing:
            self._given.clear()
            self._urged.clear()
            if look:
                self._record_open_attempts()
            elif self.open_attempts:
                self._given.set()
            await self._pack()
            appended = True
            while self._packed and appended:
                appended = await self._append_some()
                await self._notify()
            if appended:
                self._behind = False
            else:
                self._given.set()
            await self._notify()
            return appended

    async def _notify(self) -> None:
        async with self._appended:
            self._appended.notify_all()

    def _fall_behind(self) -> None:
        if not self._behind:
            _log.warning("traces_behind", entries=self.waiting)
        self._behind = True

    def _record_open_attempts(self) -> None:
        """Of attempts that are over sooner, only the end is said: that they began is in it."""
        self.wall = _wall()
        before, self._looked_at = self._looked_at, time.monotonic()
        for attempt, attempts in list(self.open_attempts.items()):
            if attempts.still(attempt, before):
                del self.open_attempts[attempt]
        if self.open_attempts:
            self._given.set()

    async def _pack(self) -> None:
        rows, self._rows = self._rows, []
        # They wait on, in whichever form.
        self._packed_entries += len(rows)
        for first in range(0, max(len(rows), min(1, self._unreported)), ROWS_PER_PACK):
            some = rows[first : first + ROWS_PER_PACK]
            lost, self._unreported = self._unreported, 0
            self._pack_some(some, lost)
            await asyncio.sleep(0)

    def _pack_some(self, rows: Sequence[PlainRow], lost: int) -> None:
        try:
            record = packed(self._pack_of(rows, lost))
        except Exception:  # noqa: BLE001 - a defect of ours costs these entries, and no more
            _log.exception("traces_not_packed", entries=len(rows))
            self._packed_entries -= len(rows)
            self._lost += len(rows)
            self._gone += len(rows)
            self._unreported += lost + len(rows)
        else:
            self._packed.append(_Packed(record, len(rows), lost))

    def _pack_of(self, rows: Sequence[PlainRow], lost: int) -> Pack:
        numbers = {row[0] for row in rows}
        return Pack(
            self._worker,
            time.time_ns() // 1_000,
            lost,
            FULL if lost else "",
            {number: self._by_number[number] for number in numbers},
            rows,
        )

    async def _append_some(self) -> bool:
        some = [self._packed[n] for n in range(min(len(self._packed), PACKS_PER_APPEND))]
        try:
            await self._append([each.record for each in some])
        except AngeliaError as exc:
            _log.warning("traces_not_appended", entries=self.waiting, error=exc.message)
            self._fall_behind()
            return False
        for each in some:
            self._packed.popleft()
            self._packed_entries -= each.entries
            self._recorded += each.entries
            self._gone += each.entries
            if each.lost:
                _log.warning("traces_lost", entries=each.lost, reason=FULL)
        return True


def _wall() -> float:
    return time.time() - time.monotonic()
