"""Which member owns which partition: rendezvous hashing by capacity, handed over in two rounds.

The group's leader decides for all. What is to move is first taken away where it is, and given to
its new owner in the next round (KIP-429), so that two members never hold one partition.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from app.domain.message import Partition
from app.log.kafka.bridge import Untyped
from app.log.kafka.protocol.wire import by_topic
from app.log.rendezvous import rendezvous

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member of the group: `name` is what it is hashed by, `id` what Kafka calls it."""

    id: str
    name: str
    capacity: float
    topics: frozenset[str]
    owned: frozenset[Partition]


def winner(candidates: Collection[Candidate], partition: Partition) -> Candidate:
    """Who is to own `partition`, of those that want its topic."""
    if len(candidates) == 1:
        return next(iter(candidates))
    named = {each.name: each for each in candidates}
    weights = {name: each.capacity for name, each in named.items()}
    return named[rendezvous(weights, f"{partition.topic}/{partition.index}")]


def share_out(
    candidates: Collection[Candidate], partitions: Mapping[str, Iterable[int]]
) -> Mapping[str, frozenset[Partition]]:
    """What each member (by id) has after this round.

    A partition that another live member holds stays nobody's until it was given up there: the
    next round, which its giving up starts, hands it over.
    """
    holders: dict[Partition, set[str]] = {}
    for candidate in candidates:
        for partition in candidate.owned:
            holders.setdefault(partition, set()).add(candidate.id)
    shares: dict[str, set[Partition]] = {candidate.id: set() for candidate in candidates}
    for topic, indexes in partitions.items():
        interested = [each for each in candidates if topic in each.topics]
        for partition in (Partition(topic, index) for index in indexes) if interested else ():
            chosen = winner(interested, partition).id
            if holders.get(partition, set()) <= {chosen}:
                shares[chosen].add(partition)
    return {member: frozenset(share) for member, share in shares.items()}


class RendezvousAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka has no types
    """The cooperative (KIP-429) assignor that kafka-python's group coordinator calls."""

    name = "angelia-rendezvous"

    def __init__(
        self, member: str, capacity: float, owned: Callable[[], Collection[Partition]]
    ) -> None:
        """`owned` says what this member holds at the moment, whatever was assigned last."""
        self._user_data = json.dumps({"member": member, "capacity": capacity}).encode()
        self._owned = owned

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Cooperative only: a rebalance takes away nothing but what moves."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Collection[str]) -> Untyped:
        """What this member tells the group's leader as it joins."""
        kind = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=_VERSION,
            topics=sorted(topics),
            user_data=self._user_data,
            owned_partitions=[
                kind(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(sorted(self._owned())).items()
            ],
        )

    def assign(self, cluster: Untyped, members: Collection[Untyped]) -> Mapping[str, Untyped]:
        """The leader's part: share out all partitions of all topics that anybody wants."""
        candidates = candidates_of(members)
        topics = {topic for each in candidates for topic in each.topics}
        partitions = {topic: cluster.partitions_for_topic(topic) or () for topic in topics}
        return {
            member: ConsumerProtocolAssignment(_VERSION, list(by_topic(sorted(share)).items()), b"")
            for member, share in share_out(candidates, partitions).items()
        }

    def on_assignment(self, assignment: Untyped, generation: Untyped) -> None:
        """Nothing to remember: `owned` knows."""


def candidates_of(members: Collection[Untyped]) -> list[Candidate]:
    """The members as Kafka lists them; two of one name are told apart by their ids."""
    told = [(member, json.loads(member.metadata.user_data)) for member in members]
    names = Counter(each["member"] for _, each in told)
    return [
        Candidate(
            id=member.member_id,
            name=each["member"] if names[each["member"]] == 1 else _unique(each, member),
            capacity=float(each["capacity"]),
            topics=frozenset(member.metadata.topics),
            owned=frozenset(
                Partition(part.topic, index)
                for part in member.metadata.owned_partitions or ()
                for index in part.partitions
            ),
        )
        for member, each in told
    ]


def _unique(told: Mapping[str, Untyped], member: Untyped) -> str:
    return f"{told['member']}|{member.member_id}"
