"""Committing, against coordinators that behave as they may."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.client import NotSentError
from app.log.kafka.commit_requests import IN_FLIGHT_MAX, Committing
from app.log.kafka.coordinators import Coordinators, FoundGroups, LookForGroups, found_groups
from app.log.kafka.link import Address
from app.log.kafka.protocol.commits import COMMIT
from app.log.kafka.protocol.wire import FRAME_LENGTH
from tests.integration.log.brokers import (
    NONSENSE,
    PLAIN,
    Serve,
    hang_up,
    saying,
    serving,
)

HERE = Partition("n.a", 0)
THERE = Partition("n.a", 1)
LOADING = 14
NOT_COORDINATOR = 16
INVALID_SIZE = 28
NOT_ALLOWED = 30
# How long a commit waits that nobody answers, and how long one takes at most that does not wait.
TIMEOUT_S = 60.0
SOON = 30.0

Say = Callable[[str, Partition], int | None]
"""The error code of a group's partition; None: nothing is said of it."""


@dataclass(slots=True)
class Broker:
    """Says so; with `silent` groups it says nothing any more."""

    say: Say = lambda _group, _partition: 0
    silent: Collection[str] = ()
    each_takes_s: float = 0
    asked: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while length := await reader.read(FRAME_LENGTH.size):
            frame = await reader.readexactly(FRAME_LENGTH.unpack(length)[0])
            request = OffsetCommitRequest.decode(frame, version=COMMIT[1], header=True)
            self.asked.append(request.group_id)
            self.sizes.append(len(frame))
            self.came.set()
            if request.group_id in self.silent:
                await reader.read()
                return
            if self.each_takes_s:
                await asyncio.wait([asyncio.Future[None]()], timeout=self.each_takes_s)
            writer.write(self._answer(request))

    def _answer(self, request: OffsetCommitRequest) -> bytes:
        kind = OffsetCommitResponse.OffsetCommitResponseTopic
        part = kind.OffsetCommitResponsePartition
        said = {
            (topic.name, each.partition_index): self.say(
                request.group_id, Partition(topic.name, each.partition_index)
            )
            for topic in request.topics
            for each in topic.partitions
        }
        topics = [
            kind(name=name, partitions=[part(partition_index=index, error_code=code)])
            for (name, index), code in said.items()
            if code is not None
        ]
        answer = OffsetCommitResponse(throttle_time_ms=0, topics=topics, version=COMMIT[1])
        body = FRAME_LENGTH.pack(request.header.correlation_id)
        body += bytes(answer.encode(version=COMMIT[1]))
        return FRAME_LENGTH.pack(len(body)) + body


@asynccontextmanager
async def committing(
    brokers: list[Broker], where: Callable[[str], int | None]
) -> AsyncIterator[Committing]:
    """`where` says which of the brokers coordinates a group, each time that it is asked."""
    async with AsyncExitStack() as stack:
        addresses = {
            node: await stack.enter_async_context(serving(broker.serve))
            for node, broker in enumerate(brokers)
        }
        its = Committing(
            Coordinators(found(where, addresses)), credentials=PLAIN, timeout=seconds(TIMEOUT_S)
        )
        stack.callback(its.close)
        yield its


def seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def found(where: Callable[[str], int | None], addresses: Mapping[int, Address]) -> LookForGroups:
    async def look(groups: Collection[str]) -> FoundGroups:
        nodes = {group: node for group in groups if (node := where(group)) is not None}
        return FoundGroups(nodes, addresses, {})

    return look


def offsets(
    groups: Collection[str], *partitions: Partition
) -> Mapping[str, Mapping[Partition, Committed]]:
    return {group: dict.fromkeys(partitions or (HERE,), Committed(7, "m")) for group in groups}


async def test_all_groups_of_a_coordinator_go_by_one_connection() -> None:
    groups = [f"g{n}" for n in range(3 * IN_FLIGHT_MAX)]
    connections = 0
    broker = Broker()

    class Counting(Broker):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await broker.serve(reader, writer)

    async with committing([Counting()], lambda _: 0) as its:
        assert await its.commit(offsets(groups)) == {}
        assert await its.commit(offsets(groups)) == {}
    assert (broker.asked, connections) == (2 * groups, 1)


async def test_a_group_that_has_moved_is_committed_where_it_is_now() -> None:
    places = iter([0, None, 1])
    before, now = Broker(lambda *_: NOT_COORDINATOR), Broker()
    async with committing([before, now], lambda _: next(places)) as its:
        assert await its.commit(offsets(["g"])) == {}
    assert (before.asked, now.asked) == (["g"], ["g"])


async def test_only_what_is_not_decided_is_asked_again() -> None:
    asked: list[tuple[str, Partition]] = []

    def say(group: str, partition: Partition) -> int | None:
        asked.append((group, partition))
        if partition == HERE:
            return INVALID_SIZE if group == "bad" else 0
        return None if asked.count((group, partition)) == 1 else 0

    async with committing([Broker(say)], lambda _: 0) as its:
        failed = await its.commit(offsets(["good", "bad"], HERE, THERE))
    assert list(failed) == [("bad", HERE)]
    assert "Size" in failed["bad", HERE]
    once = [("good", HERE), ("bad", HERE)]
    assert sorted(asked) == sorted([*once, *[("good", THERE), ("bad", THERE)] * 2])


async def test_a_silent_coordinator_fails_its_own_groups_and_no_others() -> None:
    silent, other = Broker(silent=["s0"]), Broker()
    mine = [f"s{n}" for n in range(IN_FLIGHT_MAX + 5)]
    where = {**dict.fromkeys(mine, 0), "g": 1}
    async with committing([silent, other], where.get) as its:
        failed = await its.commit(offsets([*mine, "g"]))
    assert {group for group, _ in failed} == set(mine)
    assert "did not answer in time" in failed["s0", HERE]
    assert other.asked == ["g"]


async def test_a_silent_coordinator_holds_up_no_others() -> None:
    silent, other = Broker(silent=["s"]), Broker()
    async with committing([silent, other], {"s": 0, "g": 1}.get) as its:
        async with asyncio.timeout(SOON):
            assert list(await its.commit(offsets(["s", "g"]))) == [("s", HERE)]
        async with asyncio.timeout(SOON):
            assert list(await its.commit(offsets(["s", "g"]))) == [("s", HERE)]
    assert other.asked == ["g", "g"]


async def test_a_coordinator_that_takes_its_time_is_waited_for_as_long_as_it_answers() -> None:
    # Altogether longer than others are waited for, and each far from that.
    groups = [f"g{n}" for n in range(13)]

    slow = Broker(each_takes_s=0.05)
    async with committing([Broker(), slow], lambda group: int(group != "g0")) as its:
        assert await its.commit(offsets(groups)) == {}


async def test_a_look_up_holds_up_no_group_whose_coordinator_is_known() -> None:
    broker = Broker()
    async with serving(broker.serve) as address:

        async def look(groups: Collection[str]) -> FoundGroups:
            if "new" in groups:
                raise NotSentError("no broker can be reached")
            return await found(lambda _: 0, {0: address})(groups)

        its = Committing(Coordinators(look), credentials=PLAIN, timeout=seconds(TIMEOUT_S))
        assert await its.commit(offsets(["g"])) == {}
        async with asyncio.timeout(SOON):
            failed = await its.commit(offsets(["g", "new"]))
        its.close()
    assert failed == {("new", HERE): "Kafka did not answer in time: no broker can be reached"}
    assert broker.asked == ["g", "g"]


async def test_without_a_place_to_ask_all_fails_in_time() -> None:
    async def look(_groups: Collection[str]) -> FoundGroups:
        raise NotSentError("no broker can be reached")

    its = Committing(Coordinators(look), credentials=PLAIN, timeout=seconds(1))
    assert await its.commit(offsets(["g"])) == {
        ("g", HERE): "Kafka did not answer in time: no broker can be reached"
    }


async def test_a_look_up_that_hangs_ends_in_time() -> None:
    async def look(_groups: Collection[str]) -> FoundGroups:
        return await asyncio.Future[FoundGroups]()

    its = Committing(Coordinators(look), credentials=PLAIN, timeout=seconds(0.2))
    async with asyncio.timeout(SOON):
        assert list(await its.commit(offsets(["g"]))) == [("g", HERE)]


async def test_a_group_that_is_not_ours_to_look_for_fails_at_once_and_says_why() -> None:
    async with serving(Broker().serve) as (host, port):
        here = {"node_id": 0, "host": host, "port": port, "error_code": 0}
        nowhere = {"node_id": -1, "host": "", "port": -1}

        async def look(_groups: Collection[str]) -> FoundGroups:
            denied = SimpleNamespace(key="denied", error_code=NOT_ALLOWED, **nowhere)
            return found_groups([SimpleNamespace(key="g", **here), denied])

        its = Committing(Coordinators(look), credentials=PLAIN, timeout=seconds(TIMEOUT_S))
        async with asyncio.timeout(SOON):
            failed = await its.commit(offsets(["g", "denied"]))
        its.close()
    assert list(failed) == [("denied", HERE)]
    assert failed["denied", HERE].startswith("GroupAuthorizationFailedError")


def test_a_coordinator_is_where_it_is_said_to_be_and_may_be_found_later() -> None:
    said = [
        SimpleNamespace(key="a", node_id=3, host="h", port=7, error_code=0),
        SimpleNamespace(key="b", node_id=-1, host="", port=-1, error_code=15),
    ]
    assert found_groups(said) == FoundGroups({"a": 3}, {3: ("h", 7)}, {})


async def test_a_coordinator_that_is_loading_is_asked_again_without_looking_for_it() -> None:
    codes, looks = iter([LOADING, 0]), []

    def where(group: str) -> int:
        looks.append(group)
        return 0

    broker = Broker(lambda *_: next(codes))
    async with committing([broker], where) as its:
        assert await its.commit(offsets(["g"])) == {}
    assert (broker.asked, looks) == (["g", "g"], ["g"])


# Rebalance in progress, generation, member and instance that are not known, too much metadata, not
# allowed, no such topic, and one that nobody knows yet.
@pytest.mark.parametrize("code", [27, 22, 25, 82, 12, 30, 3, 999])
async def test_what_is_refused_fails_at_once_and_the_rest_is_committed(code: int) -> None:
    broker = Broker(lambda _, partition: code if partition == HERE else 0)
    async with committing([broker], lambda _: 0) as its, asyncio.timeout(SOON):
        failed = await its.commit(offsets(["g"], HERE, THERE))
    assert list(failed) == [("g", HERE)]
    assert broker.asked == ["g"]


@pytest.mark.parametrize("serve", [hang_up, *map(saying, NONSENSE)])
async def test_what_is_not_answered_or_by_nonsense_is_asked_again(serve: Serve) -> None:
    broker, served = Broker(), 0

    class First(Broker):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            await (serve if served == 1 else broker.serve)(reader, writer)

    async with committing([First()], lambda _: 0) as its:
        assert await its.commit(offsets(["g"])) == {}
    assert broker.asked == ["g"]


async def test_an_answer_that_ends_early_decides_nothing() -> None:
    class Cut(Broker):
        def _answer(self, request: OffsetCommitRequest) -> bytes:
            whole = super()._answer(request)
            if len(self.asked) > 1:
                return whole
            return FRAME_LENGTH.pack(len(whole) - 5) + whole[4:-1]

    broker = Cut()
    async with committing([broker], lambda _: 0) as its:
        assert await its.commit(offsets(["g"], HERE, THERE)) == {}
    assert broker.asked == ["g", "g"]


async def test_no_request_is_larger_than_a_broker_takes() -> None:
    many = {Partition("n.a", n): Committed(n, "m" * 4_000) for n in range(300)}
    broker = Broker()
    async with committing([broker], lambda _: 0) as its:
        assert await its.commit({"g": many}) == {}
    assert max(broker.sizes) < 1_000_000
    assert len(broker.sizes) == 3


async def test_closing_ends_what_is_under_way() -> None:
    broker = Broker(silent=["g"])
    async with committing([broker], lambda _: 0) as its:
        committed = asyncio.create_task(its.commit(offsets(["g"])))
        await broker.came.wait()
        its.close()
        async with asyncio.timeout(SOON):
            assert list(await committed) == [("g", HERE)]


async def test_a_commit_that_is_given_up_is_no_answer_to_the_next_one() -> None:
    codes = iter([INVALID_SIZE, 0])
    broker = Broker(lambda *_: next(codes))
    async with committing([broker], lambda _: 0) as its:
        first = asyncio.create_task(its.commit(offsets(["g"])))
        await broker.came.wait()
        first.cancel()
        assert await its.commit(offsets(["g"])) == {}
    assert broker.asked == ["g", "g"]


async def test_nothing_is_tried_any_more_once_another_may_own_it() -> None:
    broker = Broker(lambda *_: LOADING)
    async with serving(broker.serve) as address:
        its = Committing(
            Coordinators(found(lambda _: 0, {0: address})),
            credentials=PLAIN,
            timeout=seconds(TIMEOUT_S),
            may_commit=lambda: not broker.asked,
        )
        async with asyncio.timeout(SOON):
            failed = await its.commit(offsets(["g"]))
        its.close()
    assert failed == {("g", HERE): "others may own its partition by now"}
    assert broker.asked == ["g"]
