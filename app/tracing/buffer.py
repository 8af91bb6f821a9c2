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
from app.tracing.packs import Pack, PlainRow, numbered, packed

# The maximum number of trace entries that wait to be appended, packed or not: about 20 MB. Entries
# above this number are lost, and counted.
ENTRIES_MAX: Final = 100_000
# The number of entries in a pack. Packing so many entries takes about a millisecond. Between two
# packs, deliveries can run.
ROWS_PER_PACK: Final = 500
# The maximum number of packs that one append to the log has.
PACKS_PER_APPEND: Final = 8
# The time between two appends to the stream of traces. Commits of traced deliveries wait for the
# next append.
INTERVAL: Final = timedelta(milliseconds=100)
# The pause before a failed append to the stream of traces is repeated.
RETRY_PAUSE: Final = timedelta(seconds=1)

FULL: Final = "The traces stream did not take them in time"

_log = structlog.get_logger()

Append = Callable[[Sequence[NewRecord]], Awaitable[object]]


class OpenAttempts(Protocol):
    """An object that starts and ends attempts. It can write a trace entry while an attempt runs."""

    def still(self, attempt: Any, before: float) -> bool:  # noqa: ANN401 - depends on the owner
        """Write a trace entry that the attempt has started, if the attempt began before `before`.

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
    """Collects trace entries, and appends them to the stream of traces, many in one record.

    An entry is a row (`app.tracing.packs`). A failed append is repeated, so its rows may be stored
    twice. Entries that are dropped because the buffer is full are counted. The count is written to
    the stream.
    """

    def __init__(
        self,
        append: Append,
        *,
        worker: str,
        entries_max: int = ENTRIES_MAX,
        retry_pause: timedelta = RETRY_PAUSE,
    ) -> None:
        self._append = append
        self._retry_pause_s = retry_pause.total_seconds()
        self._worker = worker
        self._entries_max = entries_max
        self._rows: list[PlainRow] = []
        self._packed: deque[_Packed] = deque()
        self._packed_entries = 0
        self._unreported = 0
        self._recorded = 0
        self._lost = 0
        # The number of added entries that are no longer in the buffer, because they are in the
        # stream or lost.
        self._gone = 0
        self._given = asyncio.Event()
        self._flushing = asyncio.Lock()
        # `_urged` is set when a caller waits until its entries are appended. While `_behind` is
        # true, such a wait would be useless.
        self._urged = asyncio.Event()
        self._appended = asyncio.Condition()
        self._behind = False
        # Attempts in flight that have no trace entry yet. Whoever adds the first attempt calls
        # `wake`. An attempt is removed when it ends.
        self.open_attempts: dict[Any, OpenAttempts] = {}
        self._looked_at = 0.0
        # The difference between the wall clock and the monotonic clock, in seconds.
        self.wall = _wall()

    @property
    def stats(self) -> TraceStats:
        """How many trace entries were recorded, and how many were lost, since the start."""
        return TraceStats(self._recorded, self._lost)

    @property
    def waiting(self) -> int:
        """The number of entries that are not appended to the stream yet."""
        return len(self._rows) + self._packed_entries

    @property
    def behind(self) -> bool:
        """Whether the stream accepts no entries now, or accepts them more slowly than they come."""
        return self._behind

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
        """Wake the task in `run`, because there is a new entry or an attempt in flight."""
        self._given.set()

    async def run(self) -> None:
        """Append the collected entries to the stream again and again, until cancelled."""
        while True:
            await self._given.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._urged.wait()
            if not await self._flush(look=not self._urged.is_set()):
                await asyncio.sleep(self._retry_pause_s)

    async def until_appended(self, within: timedelta) -> bool:
        """Wait until the stream has all entries that are in the buffer now.

        Return False if this takes longer than `within`. Lost entries do not count. While the
        stream accepts nothing, or is too slow, the result is False immediately, until all entries
        are appended.
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
        """Append the waiting entries, and repeat failed appends.

        Entries that are not appended in this time are given up.
        """
        try:
            async with asyncio.timeout(within.total_seconds()):
                while True:
                    if await self.flush():
                        return
                    await asyncio.sleep(self._retry_pause_s)
        except TimeoutError:
            _log.warning("last_traces_not_appended", entries=self.waiting)

    async def flush(self) -> bool:
        """Append all collected entries now; return whether the stream has all of them."""
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
        """Write an entry for each attempt that has been in flight for a while.

        A shorter attempt gets no entry for its start. The entry about its end includes the start.
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
        # Entries wait until they are appended, so `_packed_entries` counts them already while they
        # are being packed.
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
        why = FULL if lost else ""
        return Pack(self._worker, time.time_ns() // 1_000, lost, why, *numbered(rows))

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
