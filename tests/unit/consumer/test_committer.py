"""The committer: what is in a round, and what becomes of a commit that fails or comes late."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from structlog.testing import capture_logs

from app.domain.commit import Progress
from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed
from tests.fakes.leaping_loop import LeapingLoop, passes
from workers.consumer.commit.commit_queue import GROUPS_PER_ROUND, ROUNDS_MAX
from workers.consumer.commit.committer import RETRY_MAX, Committer
from workers.consumer.commit.cursor import Cursor

LONG = timedelta(seconds=60)


class SlowLog:
    """A log whose commits wait for `go_on`, and fail as told."""

    def __init__(self) -> None:
        self.rounds: list[dict[tuple[str, int], int]] = []
        self.failing: set[str] = set()
        self.reason = "not now"
        self.down = False
        self.begun, self.go_on, self.committed = (asyncio.Event() for _ in range(3))
        self.go_on.set()

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        self.begun.set()
        await self.go_on.wait()
        if self.down:
            raise LogUnavailableError("the log is down")
        flat = [(g, p, c.offset) for g, mine in offsets.items() for p, c in mine.items()]
        self.rounds.append({(g, p.index): offset for g, p, offset in flat})
        self.committed.set()
        return {(g, p): self.reason for g, p, _ in flat if g in self.failing}

    async def until_committed(self) -> None:
        """Wait for the next round."""
        self.committed.clear()
        async with asyncio.timeout(LONG.total_seconds()):
            await self.committed.wait()


class Traces:
    """What is waited for before traced cursors are committed: `said`, or given up."""

    def __init__(self) -> None:
        self.asked, self.said = asyncio.Event(), asyncio.Event()

    async def until_asked(self) -> None:
        async with asyncio.timeout(LONG.total_seconds()):
            await self.asked.wait()

    async def until_appended(self, within: timedelta) -> bool:
        self.asked.set()
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self.said.wait()
        except TimeoutError:
            return False
        return True


class Owner:
    """Reports what moved to the committer, as a consumer does."""

    def __init__(self, committer: Committer, group: str) -> None:
        self._committer = committer
        self._group = group

    def readable(self, cursor: Cursor) -> None:
        """Nothing is read here."""

    def moved(self, cursor: Cursor) -> None:
        self._committer.moved(self._group, cursor)


class Scene:
    def __init__(self, hold_max: timedelta = LONG, *, retry_max: timedelta = timedelta()) -> None:
        self.log = SlowLog()
        self.traces = Traces()
        self.committer = Committer(
            self.log,  # type: ignore[arg-type]
            self.traces,
            hold_max=hold_max,
            last_hold_max=hold_max,
            again_after=timedelta(milliseconds=1),
            retry_max=retry_max,
        )

    def cursor(self, group: str = "g", index: int = 0, offset: int = 0) -> Cursor:
        start = Progress(subscription_id="s", offset=offset)
        return Cursor(Owner(self.committer, group), Partition("t", index), start)


def move(cursor: Cursor, to: int) -> None:
    """Let the cursor pass over everything before `to`."""
    cursor._pass(to)  # noqa: SLF001 - the shortest way to a cursor that moved


async def test_commits_all_that_moved_in_one_request_and_nothing_else() -> None:
    scene = Scene()
    first, second, _still = scene.cursor("g"), scene.cursor("h"), scene.cursor("i")
    move(first, 3)
    move(second, 5)
    move(first, 4)
    await scene.committer.flush()
    await scene.committer.flush()
    assert scene.log.rounds == [{("g", 0): 4, ("h", 0): 5}]
    assert (first.committed.offset, first.dirty) == (4, False)


async def test_a_round_takes_no_more_groups_than_its_bound() -> None:
    scene = Scene()
    for number in range(GROUPS_PER_ROUND + 1):
        move(scene.cursor(f"g{number}"), 1)
    await scene.committer.flush()
    await scene.committer.flush()
    assert [len(round_) for round_ in scene.log.rounds] == [GROUPS_PER_ROUND, 1]


async def test_all_that_moved_of_a_group_is_in_one_round() -> None:
    scene = Scene()
    for group in ("first", *(f"g{number}" for number in range(GROUPS_PER_ROUND)), "first"):
        move(scene.cursor(group, index=len(group)), 1)
    late = scene.cursor("first", index=9)
    move(late, 3)
    await scene.committer.flush()
    assert late.committed.offset == 3


async def test_thousands_of_groups_take_a_few_rounds() -> None:
    scene = Scene()
    cursors = [scene.cursor(f"g{number}") for number in range(3_000)]
    for cursor in cursors:
        move(cursor, 1)
    for _ in range(ROUNDS_MAX):
        await scene.committer.flush()
    assert {cursor.committed.offset for cursor in cursors} == {1}


async def test_what_the_log_refused_is_in_the_next_round_and_the_rest_is_not() -> None:
    scene = Scene()
    good, bad = scene.cursor("good"), scene.cursor("bad")
    scene.log.failing = {"bad"}
    move(good, 1)
    move(bad, 2)
    await scene.committer.flush()
    assert (good.committed.offset, bad.committed.offset) == (1, 0)
    scene.log.failing = set()
    await scene.committer.flush()
    assert scene.log.rounds[1] == {("bad", 0): 2}
    assert bad.committed.offset == 2


async def test_what_failed_for_one_reason_is_said_in_one_line() -> None:
    scene = Scene()
    for n in range(3):
        move(scene.cursor(f"g{n}"), 1)
    scene.log.failing = {"g0", "g2"}
    with capture_logs() as said:
        await scene.committer.flush()
    assert [(consumer["event"], consumer["group"], consumer["positions"]) for consumer in said] == [
        ("commit_failed", "g0", 2)
    ]


async def test_a_failure_is_logged_when_it_begins_and_when_it_ends() -> None:
    scene = Scene()
    first, second = scene.cursor(index=0), scene.cursor(index=1)
    move(first, 1)
    move(second, 1)
    scene.log.failing = {"g"}
    with capture_logs() as said:
        for _ in range(3):
            await scene.committer.flush()
        scene.log.failing = set()
        for _ in range(3):
            await scene.committer.flush()
    assert [(each["event"], each["group"], each["positions"]) for each in said] == [
        ("commit_failed", "g", 2),
        ("commit_resumed", "g", 2),
    ]


async def test_another_reason_of_a_failure_is_logged_too() -> None:
    scene = Scene()
    move(scene.cursor(), 1)
    scene.log.failing = {"g"}
    with capture_logs() as said:
        for reason in ("not now", "not now", "never", "never"):
            scene.log.reason = reason
            await scene.committer.flush()
    assert [each["error"] for each in said] == ["not now", "never"]


def test_commits_that_fail_are_tried_less_and_less_often_and_others_as_before() -> None:
    async def scenario() -> None:
        scene = Scene(retry_max=RETRY_MAX)
        scene.log.failing = {"bad"}
        bad, good = scene.cursor("bad"), scene.cursor("good")
        move(bad, 1)
        running = asyncio.ensure_future(scene.committer.run())
        for offset in range(1, 61):
            move(bad, offset)
            move(good, offset)
            await passes(1)
            assert good.committed.offset == offset
        tries = sum(("bad", 0) in each for each in scene.log.rounds)
        assert 15 <= tries <= 30
        scene.log.failing = set()
        await passes(RETRY_MAX.total_seconds() + 1)
        assert bad.committed.offset == offset
        running.cancel()

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())


async def test_while_the_log_is_down_nothing_counts_as_committed_and_each_waits_once() -> None:
    scene = Scene()
    cursor = scene.cursor()
    scene.log.down = True
    for offset in range(1, 5):
        move(cursor, offset)
        await scene.committer.flush()
    assert (cursor.committed.offset, cursor.dirty) == (0, True)
    scene.log.down = False
    await scene.committer.flush()
    assert (scene.log.rounds, cursor.committed.offset) == ([{("g", 0): 4}], 4)


async def test_a_commit_that_failed_and_comes_in_late_is_committed_over() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    scene.log.failing = {"g"}
    await scene.committer.flush()
    scene.log.failing = set()
    move(cursor, 2)
    await scene.committer.flush()
    # Here the first one may come in that was given up: what was sent later goes over it.
    for _ in range(2):
        await scene.committer.flush()
    assert scene.log.rounds == [{("g", 0): 1}, {("g", 0): 2}, {("g", 0): 2}]
    assert not cursor.dirty


async def test_what_moves_while_it_is_committed_is_committed_again() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    scene.log.go_on.clear()
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.log.begun.wait()
    move(cursor, 2)
    scene.log.go_on.set()
    await flushing
    assert (cursor.committed.offset, cursor.dirty) == (1, True)
    await scene.committer.flush()
    assert cursor.committed.offset == 2


async def test_a_last_commit_waits_for_the_one_in_the_air_and_comes_after_it() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    scene.log.go_on.clear()
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.log.begun.wait()
    move(cursor, 2)
    finishing = asyncio.ensure_future(scene.committer.finish([("g", cursor)], LONG))
    await asyncio.sleep(0)
    scene.log.go_on.set()
    await flushing
    assert await finishing
    assert scene.log.rounds == [{("g", 0): 1}, {("g", 0): 2}]


async def test_a_last_commit_is_made_when_the_one_in_the_air_fails() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    scene.log.go_on.clear()
    scene.log.failing = {"g"}
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.log.begun.wait()
    finishing = asyncio.ensure_future(scene.committer.finish([("g", cursor)], LONG))
    await asyncio.sleep(0)
    scene.log.go_on.set()
    await flushing
    scene.log.failing = set()
    assert await finishing
    assert cursor.committed.offset == 1


async def test_a_last_commit_gives_up_at_its_deadline() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    scene.log.down = True
    assert not await scene.committer.finish([("g", cursor)], timedelta(milliseconds=1))


async def test_nothing_is_committed_for_an_abandoned_cursor() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    cursor.abandoned = True
    await scene.committer.flush()
    assert await scene.committer.finish([("g", cursor)], LONG)
    assert scene.log.rounds == []


async def settled_after_a_failure(scene: Scene, *cursors: Cursor) -> None:
    """Let the commit of these cursors fail once, and then succeed twice."""
    scene.log.failing = {"g"}
    for cursor in cursors:
        move(cursor, 1)
    await scene.committer.flush()
    scene.log.failing = set()
    await scene.committer.flush()
    await scene.committer.flush()
    assert not any(cursor.dirty for cursor in cursors)
    scene.log.rounds.clear()


async def test_after_a_failed_commit_an_idle_cursor_is_committed_once_more_later() -> None:
    """The log may have applied the failed commit after all newer ones."""
    scene = Scene()
    await settled_after_a_failure(scene, scene.cursor(index=0), scene.cursor(index=1))
    running = asyncio.ensure_future(scene.committer.run())
    await scene.log.until_committed()
    # A cursor that moves later is in the next round. Others are committed no more.
    move(scene.cursor("h"), 1)
    await scene.log.until_committed()
    running.cancel()
    assert scene.log.rounds == [{("g", 0): 1, ("g", 1): 1}, {("h", 0): 1}]


async def test_a_cursor_in_doubt_is_committed_at_its_end_and_not_later() -> None:
    scene = Scene()
    closed, going_on = scene.cursor(index=0), scene.cursor(index=1)
    await settled_after_a_failure(scene, closed, going_on)
    closed.halt()
    assert await scene.committer.finish([("g", closed)], LONG)
    running = asyncio.ensure_future(scene.committer.run())
    await scene.log.until_committed()
    running.cancel()
    assert scene.log.rounds == [{("g", 0): 1}, {("g", 1): 1}]


async def test_a_cursor_that_is_doubted_is_committed_once_more_later() -> None:
    scene = Scene()
    scene.committer.doubt(scene.cursor(offset=3))
    running = asyncio.ensure_future(scene.committer.run())
    await scene.log.until_committed()
    move(scene.cursor("h"), 1)
    await scene.log.until_committed()
    running.cancel()
    assert scene.log.rounds == [{("g", 0): 3}, {("h", 0): 1}]
