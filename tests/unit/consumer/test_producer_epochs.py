"""A cursor's name in commits: there before anything is recorded with it, gone at its end."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from app.domain.commit import Progress, parse_progress
from app.domain.message import Partition
from app.log.interface import Committed
from workers.consumer.commit.committer import Committer
from workers.consumer.commit.cursor import Cursor

LONG = timedelta(seconds=60)
GROUP = "g"


class Log:
    """Commits, by what their texts say; those of `failing` groups fail, and all wait to `go_on`."""

    def __init__(self) -> None:
        self.rounds: list[dict[int, str]] = []
        self.failing = False
        self.tried, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        await self.go_on.wait()
        flat = [(g, p, each) for g, mine in offsets.items() for p, each in mine.items()]
        self.tried.set()
        self.rounds.append({p.index: life_in(each) for _, p, each in flat})
        return {(g, p): "not now" for g, p, _ in flat} if self.failing else {}


def life_in(committed: Committed) -> str:
    progress = parse_progress("s", committed.offset, committed.metadata)
    assert progress is not None
    return progress.producer_epoch


class NoTraces:
    async def until_appended(self, within: timedelta) -> bool:
        del within
        return True


class Owner:
    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def readable(self, cursor: Cursor) -> None:
        """Nothing is read here."""

    def moved(self, cursor: Cursor) -> None:
        self._committer.moved(GROUP, cursor)


class Scene:
    def __init__(self) -> None:
        self.log = Log()
        self.committer = Committer(self.log, NoTraces())  # type: ignore[arg-type]

    def cursor(self, index: int = 0) -> Cursor:
        start = Progress(subscription_id="s", offset=0)
        return Cursor(Owner(self.committer), Partition("t", index), start)

    async def begin(self, cursor: Cursor) -> None:
        async with asyncio.timeout(LONG.total_seconds()):
            await self.committer.begin_epoch(GROUP, cursor)


async def test_a_producer_epoch_begins_with_a_commit_at_once_and_one_is_enough() -> None:
    scene = Scene()
    cursor = scene.cursor()
    assert cursor.producer_epoch == ""
    await asyncio.gather(*(scene.begin(cursor) for _ in range(5)))
    assert cursor.producer_epoch
    assert scene.log.rounds == [{0: cursor.producer_epoch}]
    await scene.begin(cursor)
    await scene.committer.flush()
    assert len(scene.log.rounds) == 1


async def test_lives_that_begin_together_are_committed_together() -> None:
    scene = Scene()
    cursors = [scene.cursor(index) for index in range(50)]
    scene.log.go_on.clear()
    async with asyncio.TaskGroup() as beginning:
        for cursor in cursors:
            beginning.create_task(scene.begin(cursor))
        await asyncio.sleep(0)
        scene.log.go_on.set()
    assert len({cursor.producer_epoch for cursor in cursors}) == len(cursors)
    assert len(scene.log.rounds) <= 2


async def test_no_producer_epoch_has_begun_before_its_commit_is_durable() -> None:
    scene = Scene()
    cursor = scene.cursor()
    scene.log.failing = True
    beginning = asyncio.create_task(scene.begin(cursor))
    await scene.log.tried.wait()
    assert not cursor.producer_epoch
    scene.log.failing = False
    await scene.committer.flush()
    # The one that failed may still come in behind it.
    assert not cursor.producer_epoch
    await scene.committer.flush()
    await beginning
    assert scene.log.rounds[-1] == {0: cursor.producer_epoch}


async def test_all_commits_say_the_producer_epoch_until_all_has_landed() -> None:
    scene = Scene()
    cursor = scene.cursor()
    await scene.begin(cursor)
    cursor.renew()
    await scene.committer.flush()
    cursor.request_started()
    cursor.halt()
    cursor.settle()
    cursor.renew()
    await scene.committer.flush()
    assert [round_[0] for round_ in scene.log.rounds] == [cursor.producer_epoch] * 3
    cursor.request_ended()
    cursor.settle()
    assert await scene.committer.finish([(GROUP, cursor)], LONG)
    assert scene.log.rounds[-1] == {0: ""}


async def test_one_that_has_landed_and_never_lived_commits_nothing_more() -> None:
    scene = Scene()
    cursor = scene.cursor()
    cursor.halt()
    cursor.settle()
    assert await scene.committer.finish([(GROUP, cursor)], LONG)
    assert scene.log.rounds == []


async def test_who_waits_for_the_producer_epoch_of_an_abandoned_cursor_goes_on() -> None:
    scene = Scene()
    cursor, late = scene.cursor(), scene.cursor(1)
    scene.log.failing = True
    beginning = asyncio.create_task(scene.begin(cursor))
    await scene.log.tried.wait()
    cursor.abandon()
    await beginning
    late.abandon()
    await scene.begin(late)
    assert (cursor.producer_epoch, late.producer_epoch) == ("", "")


async def test_a_log_that_was_made_anew_begins_another_producer_epoch() -> None:
    scene = Scene()
    cursor = scene.cursor()
    await scene.begin(cursor)
    before = cursor.producer_epoch
    cursor.rewind(0)
    assert not cursor.producer_epoch
    await scene.begin(cursor)
    assert cursor.producer_epoch not in {"", before}
