import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from math import inf

from workers.transport.deadline_timer import DeadlineTimer

PATIENCE_S = 60.0


class Watched:
    def __init__(self, deadline_timer: DeadlineTimer, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_timer = deadline_timer
        self.deadline = deadline
        self.late_s: float | None = None
        self.expired_at = self.due = 0.0
        self.meanwhile: Callable[[], object] = int

    def expire(self) -> None:
        self.expired_at = self._loop.time()
        self.due, self.late_s = self.deadline, self.expired_at - self.deadline
        self.deadline = inf
        self._deadline_timer.discard(self)
        self.meanwhile()

    def put_off(self, deadline: float) -> None:
        if not self.expired_at:
            self.deadline = deadline
            self._deadline_timer.notice(deadline)


async def test_expires_each_at_its_deadline_or_soon_after() -> None:
    loop = asyncio.get_running_loop()
    deadline_timer, now = DeadlineTimer(loop), loop.time()
    watched = [Watched(deadline_timer, now + after) for after in (0.09, 0.05, 0.051, 0.2)]
    for one in watched:
        deadline_timer.add(one)
    async with asyncio.timeout(PATIENCE_S):
        await deadline_timer.drained()
    assert all(one.late_s is not None and one.late_s >= 0 for one in watched)


async def test_what_got_a_later_deadline_while_others_expired_goes_on() -> None:
    loop = asyncio.get_running_loop()
    deadline_timer, now = DeadlineTimer(loop), loop.time()
    pair = [Watched(deadline_timer, now + 0.02) for _ in range(2)]
    for one, other in (pair, pair[::-1]):
        # Such as a request that fails: the next one goes by a connection whose idle life is over.
        one.meanwhile = partial(other.put_off, now + 0.2)
        deadline_timer.add(one)
    async with asyncio.timeout(PATIENCE_S):
        await deadline_timer.drained()
    assert sorted(one.due for one in pair) == [now + 0.02, now + 0.2]
    assert all(one.late_s is not None and one.late_s >= 0 for one in pair)


async def test_a_later_deadline_costs_no_timer() -> None:
    timers: list[float] = []

    class Loop(asyncio.SelectorEventLoop):
        def call_at(
            self,
            when: float,
            callback: Callable[..., object],
            *args: object,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            timers.append(when)
            return super().call_at(when, callback, *args, context=context)

    loop = Loop()
    try:
        deadline_timer = DeadlineTimer(loop)
        for after in range(1000):
            deadline_timer.notice(1000.0 + after)
        assert timers == [1000.0]
        deadline_timer.notice(999.0)
        assert timers == [1000.0, 999.0]
    finally:
        loop.close()


async def test_no_timer_runs_while_nothing_is_watched() -> None:
    loop = asyncio.get_running_loop()
    deadline_timer = DeadlineTimer(loop)
    one = Watched(deadline_timer, loop.time() + 0.02)
    deadline_timer.add(one)
    deadline_timer.discard(one)
    async with asyncio.timeout(PATIENCE_S):
        await deadline_timer.drained()
    assert len(deadline_timer) == 0
    assert one.late_s is None
