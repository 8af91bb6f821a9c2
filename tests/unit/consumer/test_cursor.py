"""A cursor on a feed that a test fills: what it takes, asks for, passes over and commits."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.commit import Progress
from tests.fakes.reading import ORDERS, ScriptedFetches, ScriptedTail, StandingReader, a_batch
from workers.consumer.commit.cursor import LIVE_MESSAGES_MAX, Cursor
from workers.consumer.commit.failed_commits import FailedCommits
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed
from workers.reading.reader import Reader


class Owner:
    """Remembers what a cursor says."""

    def __init__(self) -> None:
        self.readable_count = 0
        self.moved_count = 0

    def readable(self, cursor: Cursor) -> None:
        del cursor
        self.readable_count += 1

    def moved(self, cursor: Cursor) -> None:
        del cursor
        self.moved_count += 1


class Feeding:
    """Feeds one cursor."""

    def __init__(self, on_batch: BatchListener) -> None:
        self._on_batch = on_batch

    def __call__(self, batch: Batch, *, gap: bool) -> None:
        self._on_batch(batch, gap)


class Wishes(Reader):
    """A reader that keeps wishes instead of reading."""

    def __init__(self) -> None:
        super().__init__(ScriptedFetches(), ScriptedTail())  # type: ignore[arg-type]
        self.wanted: list[tuple[int, Feeding]] = []

    def fetch(
        self, feed: Feed, offset: int, on_batch: BatchListener, *, pause: timedelta = timedelta(0)
    ) -> None:
        del feed, pause
        self.wanted.append((offset, Feeding(on_batch)))


class Scene:
    def __init__(self, offset: int = 0, **progress: object) -> None:
        self.owner = Owner()
        self.reader = Wishes()
        start = Progress(subscription_id="s1", offset=offset, **progress)  # type: ignore[arg-type]
        self.cursor = Cursor(self.owner, ORDERS, start)
        self.feed = self.reader.join(ORDERS, [self.cursor])
        self.cursor.read_from(self.reader, self.feed)

    def taken(self) -> list[int]:
        """The offsets of all that can be taken now."""
        taken = []
        while (message := self.cursor.take()) is not None:
            taken.append(message[0].offset)
        return taken

    def told(self) -> tuple[int, int]:
        return self.owner.readable_count, self.owner.moved_count


def test_takes_what_the_feed_has_and_is_woken_by_what_comes() -> None:
    scene = Scene()
    assert scene.taken() == []
    before, _ = scene.told()
    scene.feed.put(a_batch(0, 3))
    assert scene.told()[0] == before + 1
    assert scene.taken() == [0, 1, 2]
    scene.feed.put(a_batch(3, 5))
    assert scene.taken() == [3, 4]


def test_takes_nothing_that_was_finished_before_a_restart() -> None:
    scene = Scene(finished=((1, 3), (4, 5)))
    scene.feed.put(a_batch(0, 6))
    assert scene.taken() == [0, 3, 5]


def test_commits_past_what_was_finished_before_a_restart() -> None:
    scene = Scene(finished=((1, 3),))
    scene.feed.put(a_batch(0, 3))
    message, _ = scene.cursor.take() or (None, 0)
    assert message is not None
    scene.cursor.delivered(message)
    assert scene.cursor.commit_begins().offset == 1
    assert scene.taken() == []
    assert scene.cursor.dirty
    assert scene.cursor.commit_begins().offset == 3


def test_commits_past_offsets_without_a_message() -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, 4, holes=[0, 1, 2, 3]))
    assert scene.taken() == []
    assert scene.reader.wanted == []
    assert scene.cursor.commit_begins().offset == 4


def test_a_cursor_before_the_feed_reads_for_itself_and_then_joins_it() -> None:
    scene = Scene()
    scene.feed.restart(10)
    scene.reader.join(ORDERS, [StandingReader(10)])
    scene.feed.put(a_batch(10, 12))
    assert scene.taken() == []
    assert scene.cursor.lagging
    ((offset, on_batch),) = scene.reader.wanted
    assert offset == 0
    scene.cursor.wake()
    assert scene.taken() == []
    assert len(scene.reader.wanted) == 1  # one wish at a time
    before, _ = scene.told()
    on_batch(a_batch(0, 11), gap=False)
    assert scene.told()[0] == before + 1
    assert scene.taken() == list(range(12))
    assert not scene.cursor.lagging


def test_many_messages_that_arrive_together_are_a_backlog() -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, LIVE_MESSAGES_MAX))
    scene.cursor.take()
    lagging = [scene.cursor.lagging]
    scene.feed.put(a_batch(LIVE_MESSAGES_MAX, 2 * LIVE_MESSAGES_MAX + 1))
    scene.taken()
    scene.feed.put(a_batch(2 * LIVE_MESSAGES_MAX + 1, 4 * LIVE_MESSAGES_MAX))
    scene.cursor.take()
    lagging.append(scene.cursor.lagging)
    scene.taken()
    lagging.append(scene.cursor.lagging)
    assert lagging == [False, True, False]


@pytest.mark.parametrize("beyond", [1, 5, 9])
def test_a_cursor_further_on_than_the_feed_waits_until_it_comes_there(beyond: int) -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, 1))
    ahead = Cursor(scene.owner, ORDERS, Progress(subscription_id="s2", offset=beyond))
    scene.reader.join(ORDERS, [ahead])
    ahead.read_from(scene.reader, scene.feed)
    assert ahead.take() is None
    scene.feed.put(a_batch(1, 10))
    message = ahead.take()
    assert message is not None
    assert message[0].offset == beyond


def test_what_retention_took_is_passed_over_and_committed() -> None:
    scene = Scene()
    scene.feed.restart(10)
    assert scene.taken() == []
    ((_, on_batch),) = scene.reader.wanted
    on_batch(a_batch(0, 6, holes=range(6)), gap=True)
    assert scene.cursor.commit_begins().offset == 6
    assert scene.taken() == []
    assert [offset for offset, _ in scene.reader.wanted] == [0, 6]


def test_a_cursor_beyond_a_log_made_anew_goes_back_to_its_beginning() -> None:
    scene = Scene(100)
    scene.cursor.rewind(0)
    scene.feed.restart(0)
    scene.feed.put(a_batch(0, 2))
    assert scene.taken() == [0, 1]


@pytest.mark.parametrize("gap", [False, True])
def test_what_was_asked_for_before_a_rewind_is_not_taken(*, gap: bool) -> None:
    """Else all between would be passed over, or sent twice."""
    scene = Scene(50)
    scene.feed.restart(200)
    assert scene.taken() == []
    ((_, on_batch),) = scene.reader.wanted
    scene.cursor.rewind(0)
    scene.feed.restart(0)
    scene.feed.put(a_batch(0, 2))
    on_batch(a_batch(50, 60), gap=gap)
    assert scene.taken() == [0, 1]


def test_a_cursor_does_not_wait_for_what_it_asked_for_before_a_rewind() -> None:
    """The log may never have that offset again."""
    scene = Scene(50)
    scene.feed.restart(200)
    assert scene.taken() == []
    scene.cursor.rewind(0)
    scene.feed.restart(0)
    scene.feed.put(a_batch(0, 2))
    assert scene.taken() == [0, 1]
    ((_, on_batch),) = scene.reader.wanted
    on_batch(a_batch(0, 60), gap=False)
    assert scene.taken() == []


def test_a_cursor_that_may_open_nothing_more_is_woken_when_it_may() -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, 10_000))
    opened = []
    while (taken := scene.cursor.take()) is not None:
        opened.append(taken[0])
        if taken[0].offset % 2:
            scene.cursor.delivered(taken[0])
    assert opened[-1].offset < 9_000
    before, _ = scene.told()
    for message in opened[::2]:
        scene.cursor.delivered(message)
    assert scene.told()[0] > before
    assert scene.cursor.take() is not None


def test_says_once_that_it_moved_until_that_is_committed() -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, 3))
    messages = [taken[0] for _ in range(3) if (taken := scene.cursor.take())]
    for message in messages[:2]:
        scene.cursor.delivered(message)
    assert scene.owner.moved_count == 1
    progress = scene.cursor.commit_begins()
    scene.cursor.discarded(messages[2])
    scene.cursor.commit_done(progress)
    assert scene.owner.moved_count == 2
    assert (scene.cursor.committed.offset, scene.cursor.committed.delivered) == (2, 2)
    assert (scene.cursor.commit_begins().offset, scene.cursor.dirty) == (3, False)


def test_a_failed_commit_is_asked_for_again() -> None:
    scene = Scene()
    scene.cursor.renew()
    scene.cursor.commit_begins()
    scene.cursor.commit_failed("not now")
    assert scene.owner.moved_count == 2
    assert scene.cursor.dirty


def test_commits_that_failed_for_long_are_what_a_cursor_waits_for_until_one_is_done() -> None:
    scene = Scene()
    progress = scene.cursor.commit_begins()
    scene.cursor.failed_commits = FailedCommits(datetime(2026, 1, 1, tzinfo=UTC))
    scene.cursor.commit_failed("it has members")
    assert "it has members" in str(scene.cursor.hold)
    scene.cursor.commit_done(progress)
    assert scene.cursor.hold is None


def test_a_halted_cursor_takes_nothing_and_leaves_the_feed() -> None:
    scene = Scene()
    scene.feed.put(a_batch(0, 3))
    scene.cursor.halt()
    assert scene.taken() == []
    assert scene.cursor not in scene.feed.readers
    before, _ = scene.told()
    scene.cursor.wake()
    assert scene.told()[0] == before


async def test_is_idle_when_nothing_of_it_is_in_the_air() -> None:
    scene = Scene()
    scene.cursor.request_started()
    scene.cursor.request_started()
    scene.cursor.request_ended()
    assert scene.cursor.in_flight == 1
    scene.cursor.request_ended()
    await scene.cursor.idle()
