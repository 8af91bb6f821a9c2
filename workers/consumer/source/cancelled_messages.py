"""Messages of cancelled retransmissions: passed by once they count as not sent again."""

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
# In one call.
MESSAGES_MAX: Final = 1_000

# By partition and offset, where it was appended again.
Position = tuple[int, int]

_log = structlog.get_logger()


class SentMarks(Protocol):
    """Knows which discarded messages were sent again, so that they are not sent once more."""

    async def unmark(self, retransmission_id: str, positions: Sequence[Position]) -> None:
        """Of that retransmission these are not sent; raises UnavailableError."""


class CancelledMessage(NamedTuple):
    """A message that is not wanted any more."""

    retransmission_id: str
    cursor: Cursor
    message: Message


class CancelledMessages:
    """Takes back that they were sent again, then has them passed by.

    They stay unfinished until that is done, so the next owner does it anew after a crash. While the
    database is down they wait, and hold up nothing else.
    """

    def __init__(self, marks: SentMarks, tasks: asyncio.TaskGroup) -> None:
        self._marks = marks
        self._tasks = tasks
        self._waiting: list[CancelledMessage] = []
        self._working = False

    def add(self, message: CancelledMessage) -> None:
        """Pass it by, soon."""
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
            # Reached only when none of them counts as sent again: from here on a commit passes it.
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
