"""A bounded buffer of trace entries, from which they are appended to the stream of traces.

Adding an entry never waits.
"""

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

# The maximum number of waiting entries, packed or not: about 20 MB. Entries above this are lost,
# and counted.
ENTRIES_MAX: Final = 100_000
# The number of entries in a pack: packing them takes about a millisecond, and deliveries run in
# between.
ROWS_PER_PACK: Final = 500
# The maximum number of packs in one append.
PACKS_PER_APPEND: Final = 8
# The time between two appends, for which commits of traced deliveries wait.
INTERVAL: Final = timedelta(milliseconds=100)
# The pause before a failed append is repeated.
RETRY_PAUSE: Final = timedelta(seconds=1)

FULL: Final = "The traces stream did not take them in time"

_log = structlog.get_logger()

Append = Callable[[Sequence[NewRecord]], Awaitable[object]]


class OpenAttempts(Protocol):
    """Starts and ends attempts, and can write a trace entry for an attempt that is in flight."""

    def still(self, attempt: Any, before: float) -> bool:  # noqa: ANN401 - depends on the owner
        """Write the entry that the attempt has started, if it started before `before`.

        `before` is a monotonic time in seconds.

        Returns:
            Whether an entry was written.
        """


class TraceStats(NamedTuple):
    """How many trace entries were recorded, and how many were lost, since the process started."""

    recorded: int
    lost: int


class _Packed(NamedTuple):
    record: NewRecord
    entries: int
    lost: int


class TraceBuffer:
    """Collects trace entries, and appends them to the stream of traces, many to a record.

    An entry is a row (`app.tracing.packs`). A failed append is repeated, so its rows may be stored
    twice. Entries that are dropped for lack of space are counted, and the count is written to the
    stream.
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
        # The number of entries that were added, and are in the stream or lost by now.
        self._gone = 0
        self._given = asyncio.Event()
        self._flushing = asyncio.Lock()
        # `_urged` is set when a caller waits for its entries. `_behind` means that waiting is
        # useless for now.
        self._urged = asyncio.Event()
        self._appended = asyncio.Condition()
        self._behind = False
        # Attempts in flight that have no trace entry yet. When the first attempt is added, `wake`
        # is called. When an attempt ends, it is removed.
        self.open_attempts: dict[Any, OpenAttempts] = {}
        self._looked_at = 0.0
        # The difference between the wall clock and the monotonic clock, in seconds.
        self.wall = _wall()

    @property
    def stats(self) -> TraceStats:
        """How many trace entries were recorded, and how many were lost."""
        return TraceStats(self._recorded, self._lost)

    @property
    def waiting(self) -> int:
        """The number of entries that the stream does not have yet."""
        return len(self._rows) + self._packed_entries

    @property
    def behind(self) -> bool:
        """Whether the stream accepts nothing now, or takes entries more slowly than they come."""
        return self._behind

    def source(self, source: TraceSource) -> int:
        """Return the number that stands for `source` (a topic, or a subscription) in rows."""
        number = self._sources.get(source)
        if number is None:
            number = self._sources[source] = len(self._by_number)
            self._by_number.append(source)
        return number

    def add(self, row: PlainRow) -> None:
        """Add an entry, if there is space; otherwise count it as lost."""
        rows = self._rows
        if not rows:
            self._given.set()
        if len(rows) + self._packed_entries < self._entries_max:
            rows.append(row)
        else:
            self._lost += 1
            self._unreported += 1

    def wake(self) -> None:
        """Wake `run`, because there is a new entry or an attempt in flight."""
        self._given.set()

    async def run(self) -> None:
        """Append collected entries until cancelled."""
        while True:
            await self._given.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._urged.wait()
            if not await self._flush(look=not self._urged.is_set()):
                await asyncio.sleep(RETRY_PAUSE.total_seconds())

    async def until_appended(self, within: timedelta) -> bool:
        """Wait until the stream has all entries so far; return False if that takes longer.

        Lost entries are not waited for. While the stream accepts nothing, or is too slow, the
        result is False immediately, until all entries are appended.
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
        """Append the waiting entries. What cannot be appended within this time is given up."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self.flush()
        except TimeoutError:
            _log.warning("last_traces_not_appended", entries=self.waiting)

    async def flush(self) -> bool:
        """Append all collected entries now; return whether the stream has them."""
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
        """Write entries for attempts that have been in flight for a while.

        For shorter attempts, only the end is recorded. The entry about the end includes the start.
        """
        self.wall = _wall()
        before, self._looked_at = self._looked_at, time.monotonic()
        for attempt, attempts in list(self.open_attempts.items()):
            if attempts.still(attempt, before):
                del self.open_attempts[attempt]
        if self.open_attempts:
            self._given.set()

    async def _pack(self) -> None:
        rows, self._rows = self._rows, []
        # These entries are waiting until they are appended, so count them also when they are
        # packed.
        self._packed_entries += len(rows)
        for first in range(0, max(len(rows), min(1, self._unreported)), ROWS_PER_PACK):
            some = rows[first : first + ROWS_PER_PACK]
            lost, self._unreported = self._unreported, 0
            self._pack_some(some, lost)
            await asyncio.sleep(0)

    def _pack_some(self, rows: Sequence[PlainRow], lost: int) -> None:
        try:
            record = packed(self._pack_of(rows, lost))
        except Exception:  # noqa: BLE001 - a bug must lose only these entries
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
