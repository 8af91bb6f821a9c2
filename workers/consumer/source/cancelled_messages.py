"""Skips messages of cancelled retransmissions.

The discard of a message that is sent again has a mark. This mark is removed before the message is
skipped.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

import structlog

from app.domain.errors import UnavailableError
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor

RETRY_PAUSE: Final = timedelta(seconds=1)
# The maximum number of discarded messages whose mark "sent again" is removed in one call.
MESSAGES_MAX: Final = 1_000

# The partition and offset of the copy that a retransmission has written into the log.
Position = tuple[int, int]

_log = structlog.get_logger()


class SentMarks(Protocol):
    """The marks of discarded messages that were sent again.

    A message with such a mark is not sent again a second time.
    """

    async def unmark(self, retransmission_id: str, positions: Sequence[Position]) -> None:
        """Remove the marks of the retransmission's messages at these positions.

        Raises:
            UnavailableError: The database cannot be reached.
        """


class CancelledMessage(NamedTuple):
    """A message that a retransmission has written into the log before it was cancelled."""

    retransmission_id: str
    cursor: Cursor
    message: Message


class CancelledMessages:
    """Removes the "sent again" marks of cancelled messages, and then skips the messages.

    The messages stay unfinished until both steps are done. So after a crash, the next owner of the
    partition repeats both. While the database is down, only these messages wait.
    """

    def __init__(self, marks: SentMarks, tasks: asyncio.TaskGroup) -> None:
        self._marks = marks
        self._tasks = tasks
        self._waiting: list[CancelledMessage] = []
        self._working = False

    def add(self, message: CancelledMessage) -> None:
        """Soon remove the mark of the message, and then skip the message."""
        self._waiting.append(message)
        if not self._working:
            self._working = True
            self._tasks.create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            cancelled = self._waiting[:MESSAGES_MAX]
            del self._waiting[:MESSAGES_MAX]
            for retransmission_id, positions in _positions(cancelled).items():
                await self._unmark(retransmission_id, positions)
            # Skip the messages only after their marks are removed. Then a commit may pass the
            # messages.
            for each in cancelled:
                each.cursor.passed_by(each.message)
        self._working = False

    async def _unmark(self, retransmission_id: str, positions: Sequence[Position]) -> None:
        while True:
            try:
                return await self._marks.unmark(retransmission_id, positions)
            except UnavailableError as exc:
                _log.warning(
                    "cancelled_messages_wait", retransmission=retransmission_id, error=exc.message
                )
                await asyncio.sleep(RETRY_PAUSE.total_seconds())


def _positions(cancelled: Sequence[CancelledMessage]) -> Mapping[str, list[Position]]:
    of_each = itemgetter(0)
    return {
        retransmission_id: [(each.message.partition.index, each.message.offset) for each in some]
        for retransmission_id, some in groupby(sorted(cancelled, key=of_each), key=of_each)
    }
