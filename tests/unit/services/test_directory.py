import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.topic import Topic
from app.domain.errors import StorageUnavailableError, TopicNotFoundError
from app.services.directory.topics import ABSENT_FOR, LOOK_UPS_MAX, TopicDirectory


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stored:
    """Topics of a database that counts its look-ups."""

    def __init__(self, *topics: Topic) -> None:
        self.topics = {topic.name: topic for topic in topics}
        self.asked: list[str] = []
        self.at_once = self.at_once_max = 0
        self.busy = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def get(self, name: str) -> Topic:
        self.asked.append(name)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        if self.at_once == LOOK_UPS_MAX:
            self.busy.set()
        try:
            await self.answers.wait()
        finally:
            self.at_once -= 1
        if name not in self.topics:
            raise TopicNotFoundError(name)
        return self.topics[name]


def a_topic(change: int = 1, partitions: int = 8) -> Topic:
    return Topic(name="a.b", change=change, partitions=partitions)


async def test_looks_up_an_unknown_topic_once_and_knows_it_then() -> None:
    stored = Stored(a_topic())
    directory = TopicDirectory(stored.get)
    assert await directory.get("a.b") == await directory.get("a.b") == a_topic()
    assert directory.known("a.b") == a_topic()
    assert stored.asked == ["a.b"]


async def test_many_who_ask_for_one_topic_look_it_up_few_times() -> None:
    stored = Stored(a_topic())
    stored.answers.clear()
    directory = TopicDirectory(stored.get)
    asking = [asyncio.ensure_future(directory.get("a.b")) for _ in range(100)]
    await stored.busy.wait()
    stored.answers.set()
    assert set(await asyncio.gather(*asking)) == {a_topic()}
    assert len(stored.asked) <= LOOK_UPS_MAX


async def test_bounds_the_look_ups_under_way() -> None:
    stored = Stored()
    stored.answers.clear()
    directory = TopicDirectory(stored.get)
    asking = [asyncio.ensure_future(directory.get(f"a.t{n}")) for n in range(50)]
    await stored.busy.wait()
    stored.answers.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(result) for result in results} == {TopicNotFoundError}
    assert stored.at_once_max == LOOK_UPS_MAX


async def test_remembers_for_a_moment_that_a_topic_does_not_exist() -> None:
    clock, stored = Clock(), Stored()
    directory = TopicDirectory(stored.get, clock=clock)
    for _ in range(3):
        with pytest.raises(TopicNotFoundError):
            await directory.get("a.b")
    assert stored.asked == ["a.b"]
    clock.now += ABSENT_FOR.total_seconds()
    stored.topics["a.b"] = a_topic()
    assert await directory.get("a.b") == a_topic()


async def test_a_topic_that_appears_in_the_feed_is_absent_no_more() -> None:
    directory = TopicDirectory(Stored().get, clock=Clock())
    with pytest.raises(TopicNotFoundError):
        await directory.get("a.b")
    directory.apply(Changes(number=1, topics=(a_topic(),)))
    assert await directory.get("a.b") == a_topic()


async def test_says_that_the_database_does_not_answer() -> None:
    stored = Stored()
    stored.answers.clear()
    with pytest.raises(StorageUnavailableError):
        await TopicDirectory(stored.get, look_up_timeout=timedelta()).get("a.b")


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        (Changes(number=2, topics=(a_topic(change=2, partitions=9),)), 9),
        (Changes(number=2, topics=(a_topic(change=0, partitions=9),)), 8),
        (Changes(number=2, deleted_topics=frozenset({"a.b"})), None),
        (Changes(number=2), 8),
        (Changes(number=0, is_complete=True, topics=(a_topic(change=0, partitions=9),)), 9),
        (Changes(number=0, is_complete=True), None),
    ],
    ids=["changed", "an older word", "deleted", "nothing", "another server", "not there"],
)
def test_follows_the_feed(changes: Changes, known: int | None) -> None:
    directory = TopicDirectory(Stored().get)
    directory.apply(Changes(number=1, topics=(a_topic(),)))
    directory.apply(changes)
    found = directory.known("a.b")
    assert (found.partitions if found else None) == known
    assert directory.last.number == changes.number


def test_drops_a_topic_that_turned_out_to_be_gone_but_not_its_successor() -> None:
    directory = TopicDirectory(Stored().get)
    old, new = a_topic(1), a_topic(2)
    directory.apply(Changes(number=2, topics=(new,)))
    directory.forget(old)
    assert directory.known("a.b") is new
    directory.forget(new)
    assert directory.known("a.b") is None


def test_a_topic_that_was_made_anew_between_two_looks_is_told_as_gone() -> None:
    gone: list[str] = []
    directory = TopicDirectory(Stored().get, deleted=gone.append)
    first = replace(a_topic(), created_at=datetime(2026, 1, 1, tzinfo=UTC))
    directory.apply(Changes(number=1, topics=(first,)))
    directory.apply(Changes(number=2, topics=(replace(first, change=2, partitions=9),)))
    assert gone == []
    second = replace(first, change=4, created_at=datetime(2026, 1, 2, tzinfo=UTC))
    directory.apply(Changes(number=4, topics=(second,)))
    assert gone == ["a.b"]


def test_a_topic_that_turned_out_not_to_exist_is_told_as_gone() -> None:
    gone: list[str] = []
    directory = TopicDirectory(Stored().get, deleted=gone.append)
    known = a_topic()
    directory.apply(Changes(number=1, topics=(known,)))
    directory.forget(a_topic(change=2))
    directory.forget(known)
    assert gone == ["a.b"]
