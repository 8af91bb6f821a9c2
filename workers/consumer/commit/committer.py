"""Commits cursors soon after their positions have changed: many cursors in one request."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.commit import Progress
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.log.interface import Committed, MessageLog
from workers.consumer.commit.commit_queue import CommitQueue
from workers.consumer.commit.commits_in_doubt import CommitsInDoubt
from workers.consumer.commit.cursor import Cursor

# The pause before each round. With this pause and the duration of a round, a finished message is
# committed within 250 ms.
COMMIT_INTERVAL: Final = timedelta(milliseconds=150)
# The longest time that a commit waits until the traces of its messages are stored. Usually it waits
# for some milliseconds.
HOLD_MAX: Final = timedelta(seconds=1)
# A commit is in doubt if the log may still apply it later, for example because the log did not
# answer it. Its cursor is committed once more, between this time and twice this time later. By
# then, the log has probably applied or lost the commit in doubt.
AGAIN_AFTER: Final = timedelta(seconds=5)
# The longest time that the last commit of a cursor waits until its traces are stored. The time is
# short, because another worker may be waiting for the partition.
LAST_HOLD_MAX: Final = timedelta(milliseconds=250)
# The longest pause between two commits of a cursor whose commits keep failing, for example because
# another program is a member of the consumer group.
RETRY_MAX: Final = timedelta(seconds=3)

_log = structlog.get_logger()

_Captured = dict[tuple[str, Partition], tuple[Cursor, Progress]]


class Traces(Protocol):
    """The traces of messages. A message's traces are stored before the message is committed."""

    async def until_appended(self, within: timedelta) -> bool:
        """Wait until all traces that were added so far are stored, at most for the time `within`.

        Returns:
            False if they were not stored in time. While the store is down or slow, return False
                immediately.
        """


class Committer:
    """Commits positions. No other class does this.

    Traced messages are committed after their traces are stored. If a crash loses traces, the
    messages are sent again and traced again. Cursors with traced messages have a separate queue, so
    that other cursors do not wait.
    """

    def __init__(
        self,
        log: MessageLog,
        traces: Traces,
        *,
        hold_max: timedelta = HOLD_MAX,
        last_hold_max: timedelta = LAST_HOLD_MAX,
        again_after: timedelta = AGAIN_AFTER,
        retry_max: timedelta = RETRY_MAX,
    ) -> None:
        self._log = log
        self._traces = traces
        self._hold_max = hold_max
        self._last_hold_max = last_hold_max
        self._retry_max = retry_max
        self._plain, self._traced = CommitQueue(), CommitQueue()
        self._in_doubt = CommitsInDoubt(again_after)
        # The cursors whose last commit has no answer yet. A cursor that becomes traced moves to the
        # queue of traced cursors. It must not be in commits of both queues at once.
        self._committing: set[Cursor] = set()
        self._writing = asyncio.Lock()

    def moved(self, group: str, cursor: Cursor) -> None:
        """Commit the position of `cursor` soon, under the consumer group `group`."""
        self._queue_of(cursor).add(group, cursor)

    def doubt(self, cursor: Cursor) -> None:
        """Commit the position of `cursor` once more later, and again when the cursor closes.

        This is necessary because the log may still apply an earlier commit.
        """
        self._in_doubt.add(cursor)

    async def run(self) -> None:
        """Commit in rounds until cancelled."""
        async with asyncio.TaskGroup() as queues:
            for queue in (self._plain, self._traced):
                queues.create_task(self._run(queue))
            queues.create_task(self._in_doubt.run())

    async def flush(self) -> None:
        """Commit cursors with a new position: of each queue as many as make one round."""
        for queue in (self._plain, self._traced):
            await self._flush(queue)

    async def begin_epoch(self, group: str, cursor: Cursor) -> None:
        """Wait until a commit contains the producer epoch of `cursor`, or the cursor is abandoned.

        The commit starts immediately. It includes all other cursors for which this method waits.
        """
        if cursor.begin_epoch():
            queue = self._queue_of(cursor)
            queue.add_urgent(group, cursor)
            async with queue.busy:
                await self._commit(queue, queue.take_urgent(), self._hold_max)
        # If the commit above has failed, wait until a later round commits the producer epoch.
        await cursor.epoch_begun()

    async def finish(
        self, cursors: Collection[tuple[str, Cursor]], deadline: timedelta | None
    ) -> bool:
        """Commit these cursors for the last time. Repeat failed commits until `deadline`.

        If `deadline` is None, repeat until each cursor is committed or abandoned.

        Returns:
            Whether all cursors are committed.
        """
        for _, cursor in cursors:
            if cursor in self._in_doubt:
                cursor.renew()
        try:
            async with asyncio.timeout(None if deadline is None else deadline.total_seconds()):
                return await self._commit_all(cursors)
        except TimeoutError:
            return False

    def _queue_of(self, cursor: Cursor) -> CommitQueue:
        return self._traced if cursor.traced else self._plain

    async def _run(self, queue: CommitQueue) -> None:
        while True:
            await queue.moved.wait()
            await asyncio.sleep(COMMIT_INTERVAL.total_seconds())
            await self._flush(queue)

    async def _flush(self, queue: CommitQueue) -> None:
        async with queue.busy:
            now = asyncio.get_running_loop().time()
            await self._commit(queue, queue.next_round(now), self._hold_max)

    async def _commit_all(self, cursors: Collection[tuple[str, Cursor]]) -> bool:
        left = list(cursors)
        while True:
            for queue in (self._plain, self._traced):
                mine = [(group, c) for group, c in left if self._queue_of(c) is queue]
                if mine:
                    async with queue.busy:
                        await self._commit(queue, mine, self._last_hold_max)
            left = [(group, c) for group, c in left if self._is_unfinished(c)]
            if not left:
                return True
            await asyncio.sleep(COMMIT_INTERVAL.total_seconds())

    def _is_unfinished(self, cursor: Cursor) -> bool:
        return (cursor.dirty or cursor in self._committing) and not cursor.abandoned

    async def _commit(
        self, queue: CommitQueue, cursors: Iterable[tuple[str, Cursor]], hold: timedelta
    ) -> None:
        captured = self._captured(queue, cursors)
        if not captured:
            return
        committing = {cursor for cursor, _ in captured.values()}
        self._committing |= committing
        try:
            if queue is self._traced:
                # Wait until the traces of these positions are stored, but not longer than `hold`.
                # So the traces of committed messages are usually stored before the commit.
                await self._traces.until_appended(hold)
            async with self._writing:
                await self._commit_captured(captured)
        finally:
            self._committing -= committing

    def _captured(self, queue: CommitQueue, cursors: Iterable[tuple[str, Cursor]]) -> _Captured:
        captured: _Captured = {}
        for group, cursor in cursors:
            if not cursor.dirty or cursor.abandoned:
                continue
            if self._queue_of(cursor) is queue and cursor not in self._committing:
                captured[group, cursor.partition] = cursor, cursor.commit_begins()
            else:
                # Move the cursor to the other queue. Its tracing was turned on or off after it was
                # queued.
                self._queue_of(cursor).add(group, cursor)
        return captured

    async def _commit_captured(self, captured: _Captured) -> None:
        # Leave out abandoned cursors. Their partitions moved to another worker during the wait for
        # traces.
        still = {key: each for key, each in captured.items() if not each[0].abandoned}
        failed = await self._write({key: progress for key, (_, progress) in still.items()})
        _log_changed(still, failed)
        for key, (cursor, progress) in still.items():
            if key in failed:
                cursor.commit_failed(failed[key])
                self._in_doubt.add(cursor)
                self._pause(cursor)
            else:
                cursor.commit_done(progress)

    def _pause(self, cursor: Cursor) -> None:
        if cursor.failed_commits and (pause := cursor.failed_commits.pause(self._retry_max)):
            until = asyncio.get_running_loop().time() + pause.total_seconds()
            self._queue_of(cursor).pause(cursor, until)

    async def _write(
        self, written: Mapping[tuple[str, Partition], Progress]
    ) -> Mapping[tuple[str, Partition], str]:
        offsets: dict[str, dict[Partition, Committed]] = {}
        for (group, partition), progress in written.items():
            committed = Committed(progress.offset, progress.metadata())
            offsets.setdefault(group, {})[partition] = committed
        try:
            return await self._log.commit(offsets) if offsets else {}
        except UnavailableError as exc:
            return dict.fromkeys(written, exc.message)


def _log_changed(captured: _Captured, failed: Mapping[tuple[str, Partition], str]) -> None:
    """Log which commits fail now, if they did not before, or for another reason, and which resumed.

    `captured` has the cursors before they know the result.
    """
    before = {
        key: cursor.failed_commits.reason
        for key, (cursor, _) in captured.items()
        if cursor.failed_commits
    }
    _log_each("commit_failed", {key: why for key, why in failed.items() if before.get(key) != why})
    _log_each("commit_resumed", {key: why for key, why in before.items() if key not in failed})


def _log_each(event: str, reasons: Mapping[tuple[str, Partition], str]) -> None:
    """Log one line for each reason, because thousands of cursors may fail for the same reason."""
    counts = Counter(reasons.values())
    for (group, partition), reason in reasons.items():
        if positions := counts.pop(reason, 0):
            _log.warning(event, group=group, partition=partition, error=reason, positions=positions)
