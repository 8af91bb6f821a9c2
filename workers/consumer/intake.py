"""What comes next for a subscription: its cursors take turns, and filters see a message first."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from app.domain.filters import Filter
from app.domain.message import Message
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain
from workers.consumer.cursor import Cursor
from workers.consumer.turns import Turns

_log = structlog.get_logger()


class Opened(NamedTuple):
    """A message that a cursor has opened, and since when its time to live runs (epoch ms)."""

    cursor: Cursor
    message: Message
    opened_ms: int


class IntakeParts(Protocol):
    """What every intake of a worker shares."""

    turns: Turns
    filter_turns: Turns
    bodies: ParsedBodies


class Intake:
    """Hands out messages one by one; those that are filtered out are closed here.

    A message that passed the filters, and cannot be sent yet, is held: one at most, and it is not
    filtered again. `resume` is called when there is more to hand out in a later turn of the loop.
    """

    def __init__(self, parts: IntakeParts, resume: Callable[[], None]) -> None:
        self._parts = parts
        self._resume = resume
        self._ready: deque[Cursor] = deque()
        self._held: Opened | None = None
        self._filters: tuple[Filter, ...] = ()
        self._chain: FilterChain | None = None

    def __bool__(self) -> bool:
        """Whether there may be something to hand out."""
        return self._held is not None or bool(self._ready)

    def filter_by(self, filters: tuple[Filter, ...]) -> None:
        """Hand out what passes these from now on."""
        if filters != self._filters:
            self._filters = filters
            self._chain = FilterChain(filters, self._parts.bodies) if filters else None
            if self._chain and self._chain.problem:
                _log.error("filters_unusable", problem=self._chain.problem)

    def add(self, cursor: Cursor) -> None:
        """`cursor` may have a message to take."""
        if not cursor.queued:
            cursor.queued = True
            self._ready.append(cursor)

    def release(self, cursor: Cursor) -> None:
        """Forget what is held of `cursor`, which is closing: it stays unfinished."""
        if self._held is not None and self._held.cursor is cursor:
            self._held = None

    def look_ahead(self) -> None:
        """Filter up to the next wanted message, which is held: filtering waits for no rate."""
        if self._chain is not None and self._held is None:
            self._held = self._next_wanted()

    def take(self) -> Opened | None:
        """The next message to send, if there is one in this turn."""
        opened = self._held or self._next_wanted()
        self._held = opened
        if opened is None:
            return None
        if opened.cursor.lagging and not self._parts.turns.take(self._resume):
            return None
        self._held = None
        return opened

    def _next_wanted(self) -> Opened | None:
        ready, chain = self._ready, self._chain
        while ready:
            if chain is not None and not self._parts.filter_turns.take(self._resume):
                return None
            cursor = ready[0]
            taken = cursor.take()
            if taken is None:
                ready.popleft()
                cursor.queued = False
            elif chain is None or chain.judge(taken[0]).wanted:
                ready.rotate(-1)  # the partitions take turns
                return Opened(cursor, *taken)
            else:
                cursor.filtered(taken[0])
        return None
