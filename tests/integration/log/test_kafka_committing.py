"""Committing, against coordinators that behave as they may."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.client import NotSentError
from app.log.kafka.commit_wire import COMMIT
from app.log.kafka.committing import IN_FLIGHT_MAX, Committing
from app.log.kafka.coordinators import Coordinators, FoundGroups
from app.log.kafka.wire import FRAME_LENGTH
from tests.integration.log.brokers import serving

HERE = Partition("n.a", 0)
THERE = Partition("n.a", 1)
NOT_COORDINATOR = 16
INVALID_SIZE = 28

Say = Callable[[str, Partition], int | None]
"""The error code of a group's partition; None: nothing is said of it."""


@dataclass(slots=True)
class Broker:
    """Says so; with `silent` groups it says nothing any more."""

    say: Say = lambda _group, _partition: 0
    silent: Collection[str] = ()
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while length := await reader.read(FRAME_LENGTH.size):
            frame = await reader.readexactly(FRAME_LENGTH.unpack(length)[0])
            request = OffsetCommitRequest.decode(frame, version=COMMIT[1], header=True)
            self.asked.append(request.group_id)
            if request.group_id in self.silent:
                await reader.read()
                return
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
    brokers: list[Broker], where: Callable[[str], int | None], *, timeout_s: float = 10
) -> AsyncIterator[Committing]:
    """`where` says which of the brokers coordinates a group, each time that it is asked."""
    async with AsyncExitStack() as stack:
        addresses = {
            node: await stack.enter_async_context(serving(broker.serve))
            for node, broker in enumerate(brokers)
        }

        async def look(groups: Collection[str]) -> FoundGroups:
            nodes = {group: node for group in groups if (node := where(group)) is not None}
            return FoundGroups(nodes, addresses)

        its = Committing(Coordinators(look), timeout=timedelta(seconds=timeout_s))
        stack.callback(its.close)
        yield its


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
    async with committing([silent, other], where.get, timeout_s=0.3) as its:
        failed = await its.commit(offsets([*mine, "g"]))
    assert {group for group, _ in failed} == set(mine)
    assert "did not answer in time" in failed["s0", HERE]
    assert other.asked == ["g"]


async def test_without_a_place_to_ask_all_fails_in_time() -> None:
    async def look(_groups: Collection[str]) -> FoundGroups:
        raise NotSentError("no broker can be reached")

    its = Committing(Coordinators(look), timeout=timedelta(seconds=0.2))
    assert await its.commit(offsets(["g"])) == {
        ("g", HERE): "Kafka did not answer in time: no broker can be reached"
    }
