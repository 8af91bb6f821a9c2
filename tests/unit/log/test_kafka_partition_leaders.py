"""Which replica is read: the leader's choice, for a while; the leader itself after a failure."""

from collections.abc import Collection

from app.domain.message import Partition
from app.log.kafka.partition_leaders import (
    AVOIDED_FOR_S,
    CHOSEN_FOR_S,
    KNOWN_FOR_S,
    LeaderCache,
    PartitionLeaders,
    ReadReplicas,
    ReadSource,
)

HERE = Partition("t", 0)
LEADER, NEAR = 1, 2


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_rack_leaders_are_read_and_not_asked_for_others() -> None:
    assert ReadReplicas("").source(HERE, LEADER) == ReadSource(LEADER)


def test_the_leaders_choice_is_read_for_a_while() -> None:
    clock = Clock()
    replicas = ReadReplicas("r", clock=clock)
    assert replicas.source(HERE, LEADER) == ReadSource(LEADER, by_rack=True)
    replicas.choose(HERE, NEAR)
    assert replicas.source(HERE, LEADER) == ReadSource(NEAR, is_leader=False)
    clock.now = CHOSEN_FOR_S
    assert replicas.source(HERE, LEADER) == ReadSource(LEADER, by_rack=True)


def test_a_replica_that_leads_by_now_is_the_leader_and_names_no_other() -> None:
    replicas = ReadReplicas("r")
    replicas.choose(HERE, NEAR)
    assert replicas.source(HERE, NEAR) == ReadSource(NEAR)


def test_after_a_failure_the_leader_is_read_whatever_it_would_name() -> None:
    clock = Clock()
    replicas = ReadReplicas("r", clock=clock)
    replicas.choose(HERE, NEAR)
    replicas.avoid([HERE])
    assert replicas.source(HERE, LEADER) == ReadSource(LEADER)
    clock.now = AVOIDED_FOR_S
    assert replicas.source(HERE, LEADER) == ReadSource(LEADER, by_rack=True)


class Brokers:
    """Where a topic is, and which topics were looked up."""

    def __init__(self) -> None:
        self.leader = LEADER
        self.looks: list[set[str]] = []

    async def look(self, topics: Collection[str]) -> PartitionLeaders:
        self.looks.append(set(topics))
        return PartitionLeaders({each: {0: self.leader} for each in topics}, {})


async def test_leaders_are_looked_up_again_after_a_while_each_topic_at_its_time() -> None:
    clock, brokers = Clock(), Brokers()
    places = LeaderCache(brokers.look, clock=clock)
    await places.leaders(["a"])
    brokers.leader = NEAR
    clock.now = KNOWN_FOR_S - 1
    assert await places.leaders(["a", "b"]) == {"a": {0: LEADER}, "b": {0: NEAR}}
    clock.now = KNOWN_FOR_S
    assert await places.leaders(["a", "b"]) == {"a": {0: NEAR}, "b": {0: NEAR}}
    assert brokers.looks == [{"a"}, {"b"}, {"a"}]


async def test_what_was_forgotten_holds_as_long_as_anything_once_it_is_found_again() -> None:
    clock, brokers = Clock(), Brokers()
    places = LeaderCache(brokers.look, clock=clock)
    await places.leaders(["a"])
    clock.now = KNOWN_FOR_S / 2
    places.forget(["a"])
    await places.leaders(["a"])
    clock.now = KNOWN_FOR_S
    await places.leaders(["a"])
    assert len(brokers.looks) == 2
