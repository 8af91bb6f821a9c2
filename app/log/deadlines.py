"""Time limits that count only the time in which a response could have been received.

If the machine does not run the process for a second, responses that arrived in this second are
still unread when the timers of the process end. So these limits count ticks of a timer. A tick
takes TICK_S seconds. A late tick counts as one tick, however late it is. A late tick directly after
a tick on time does not count at all. Ticks also save work, because one timer is enough for all
calls that wait.
"""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

TICK_S: Final = 0.1

Over = Callable[[], object]
# Stands for the deadline of a call that has ended. No call that waits has this deadline.
_ENDED: Final[tuple[int, Over]] = (-1, lambda: None)


class CallDeadline:
    """A time limit for calls. If a call does not end within `limit`, a function is run.

    The function is run at most one tick after the limit.
    """

    def __init__(self, limit: timedelta, *, tick_s: float = TICK_S) -> None:
        self._ticks = max(1, math.ceil(limit.total_seconds() / tick_s))
        self._tick_s = tick_s
        self._now = 0
        self._expected_at = 0.0
        self._was_late = False
        # The calls that have not ended, each with its deadline. All calls have the same limit, so
        # the calls are in the order of their deadlines.
        self._due: dict[object, tuple[int, Over]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, what: object, over: Over) -> None:
        """Begin the time limit of one call: run `over` at the limit, unless `end` comes first.

        `what` is any object that stands for the call. Pass the same object to `end`.
        """
        self._due[what] = (self._now + self._ticks, over)
        if self._timer is None:
            self._wait()

    def end(self, what: object) -> None:
        """End the time limit of the call `what`. If the limit has already passed, do nothing."""
        self._due.pop(what, None)

    def limit(self) -> "Limit":
        """Return a context manager that raises TimeoutError after the limit.

        Use the context manager like the result of `asyncio.timeout`.
        """
        return Limit(self)

    def _wait(self) -> None:
        # Start the timer, which runs only while a call waits.
        loop = asyncio.get_running_loop()
        self._expected_at = loop.time() + self._tick_s
        self._timer = loop.call_at(self._expected_at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        late = asyncio.get_running_loop().time() - self._expected_at > self._tick_s
        self._was_late = late and not self._was_late
        if not self._was_late:
            self._now += 1
            self._end_overdue()
        if self._due and self._timer is None:
            self._wait()

    def _end_overdue(self) -> None:
        overdue = []
        for what, (due, over) in self._due.items():
            if due >= self._now:
                break
            overdue.append((what, due, over))
        for what, due, over in overdue:
            # Check that the call still waits for its deadline. The function that was run for
            # another call may have ended this call, or started it again with a later deadline.
            if self._due.get(what, _ENDED)[0] == due:
                del self._due[what]
                over()


class Limit:
    """The context manager that `CallDeadline.limit` returns."""

    __slots__ = ("_over", "_patience", "_task")

    def __init__(self, patience: CallDeadline) -> None:
        self._patience = patience
        self._over = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task to end")
        self._task = task
        self._patience.begin(self, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._over:
            self._patience.end(self)
        # If somebody else has cancelled the task too, do not replace the cancellation by
        # TimeoutError.
        elif self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _end(self) -> None:
        self._over = True
        self._task.cancel()
