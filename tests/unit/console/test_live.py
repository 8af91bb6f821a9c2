import asyncio
from collections.abc import Mapping

from app.console.live import EVERY_S, SHARE_MAX, LiveFeeds


class Turns:
    """A clock of processor time, and pauses that the test ends."""

    def __init__(self) -> None:
        self.used = 0.0
        self.pauses: asyncio.Queue[float] = asyncio.Queue()
        self._go_on = asyncio.Semaphore(0)

    def clock(self) -> float:
        return self.used

    async def pause(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await self._go_on.acquire()

    async def next(self) -> float:
        """End the pause that is under way; return how long it was to be."""
        paused = await self.pauses.get()
        self._go_on.release()
        return paused


class Counted:
    """A page whose part says how often it was rendered."""

    def __init__(self, turns: Turns, cost: float = 0.0) -> None:
        self.times = 0
        self._turns = turns
        self._cost = cost

    async def __call__(self) -> Mapping[str, str]:
        self.times += 1
        self._turns.used += self._cost
        return {"part": str(self.times)}


async def test_a_page_is_rendered_once_for_all_who_look() -> None:
    turns = Turns()
    feeds, page = LiveFeeds(clock=turns.clock, pause=turns.pause), Counted(turns)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(feeds.run())
        first, second = feeds.join("now", page), feeds.join("now", page)
        assert first is second
        assert await turns.next() == EVERY_S
        assert (first.parts, page.times) == ({"part": "1"}, 1)
        task.cancel()


async def test_a_page_that_nobody_looks_at_costs_nothing() -> None:
    turns = Turns()
    feeds, page = LiveFeeds(clock=turns.clock, pause=turns.pause), Counted(turns)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(feeds.run())
        feed = feeds.join("now", page)
        await turns.next()
        feeds.leave("now", feed)
        assert len(feeds) == 0
        other = Counted(turns)
        feeds.join("other", other)
        while not other.times:
            await turns.next()
        assert page.times <= 2
        task.cancel()


async def test_expensive_pages_are_renewed_less_often() -> None:
    turns = Turns()
    feeds = LiveFeeds(clock=turns.clock, pause=turns.pause)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(feeds.run())
        feeds.join("now", Counted(turns, cost=1.0))
        assert await turns.next() == 1.0 / SHARE_MAX
        task.cancel()


async def test_a_page_that_cannot_be_rendered_ends_and_the_others_go_on() -> None:
    async def broken() -> Mapping[str, str]:
        raise LookupError

    turns = Turns()
    feeds, page = LiveFeeds(clock=turns.clock, pause=turns.pause), Counted(turns)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(feeds.run())
        bad, good = feeds.join("bad", broken), feeds.join("good", page)
        await turns.next()
        await turns.next()
        assert (bad.over, good.over, page.times, len(feeds)) == (True, False, 1, 1)
        task.cancel()
