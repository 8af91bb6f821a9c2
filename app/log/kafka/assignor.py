"""Assigns partitions to members by consistent hashing, weighted by capacity.

The group's leader decides for all members. A partition that moves is first revoked from its owner,
and assigned to the new owner in the next round (KIP-429). So two members never own the same
partition at once.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from app.domain.message import Partition
from app.log.hash_ring import HashRing
from app.log.kafka.bridge import Untyped
from app.log.kafka.protocol.wire import by_topic

_VERSION: Final = 1
# The assignment of a member that gets no partitions.
NO_SHARE: Final = ConsumerProtocolAssignment(_VERSION, [], b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member of the group.

    Attributes:
        id: The member's id in Kafka.
        name: The worker's name, from which its points on the hash ring follow.
        capacity: The number of partitions that the member gets is proportional to this number.
        topics: The topics that the member subscribes to.
        owned: The partitions that the member owns now.
    """

    id: str
    name: str
    capacity: float
    topics: frozenset[str]
    owned: frozenset[Partition]


def share_out(
    candidates: Collection[Candidate], partitions: Mapping[str, Iterable[int]]
) -> Mapping[str, frozenset[Partition]]:
    """Return the partitions of each member (by id) after this round.

    If a partition must move, and its owner still runs, this round assigns the partition to no
    member. When the owner has released the partition, the next round assigns it.
    """
    holders: dict[Partition, set[str]] = {}
    for candidate in candidates:
        for partition in candidate.owned:
            holders.setdefault(partition, set()).add(candidate.id)
    ids = {candidate.name: candidate.id for candidate in candidates}
    shares: dict[str, set[Partition]] = {candidate.id: set() for candidate in candidates}
    for topic, ring in _rings(candidates, partitions):
        for partition in (Partition(topic, index) for index in partitions[topic]):
            chosen = ids[ring.owner(f"{topic}/{partition.index}")]
            if holders.get(partition, set()) <= {chosen}:
                shares[chosen].add(partition)
    return {member: frozenset(share) for member, share in shares.items()}


def _rings(
    candidates: Collection[Candidate], topics: Iterable[str]
) -> Iterable[tuple[str, HashRing]]:
    """Yield each topic that candidates subscribe to, with the ring of these candidates.

    Topics with the same candidates have the same ring. Nearly always, all topics have.
    """
    rings: dict[frozenset[str], HashRing] = {}
    capacities = {candidate.name: candidate.capacity for candidate in candidates}
    for topic in topics:
        names = frozenset(each.name for each in candidates if topic in each.topics)
        if names and names not in rings:
            rings[names] = HashRing({name: capacities[name] for name in names})
        if names:
            yield topic, rings[names]


class HashRingAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka has no types
    """The cooperative (KIP-429) assignor that kafka-python's group coordinator calls."""

    # All workers of a group must have the same name here. Earlier versions had this one.
    name = "angelia-rendezvous"

    def __init__(
        self, member: str, capacity: float, owned: Callable[[], Collection[Partition]]
    ) -> None:
        """Create the assignor.

        `owned` returns the partitions that this member owns now, which may differ from the last
        assignment.
        """
        self._user_data = json.dumps({"member": member, "capacity": capacity}).encode()
        self._owned = owned

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return only the cooperative protocol: a rebalance revokes only partitions that move."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Collection[str]) -> Untyped:
        """Return what this member sends to the group's leader when it joins."""
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
        """Divide all partitions of all subscribed topics among the members.

        This is called only in the member that leads the group.
        """
        candidates = candidates_of(members)
        topics = {topic for each in candidates for topic in each.topics}
        partitions = {topic: cluster.partitions_for_topic(topic) or () for topic in topics}
        return {
            member: ConsumerProtocolAssignment(_VERSION, list(by_topic(sorted(share)).items()), b"")
            for member, share in share_out(candidates, partitions).items()
        }

    def on_assignment(self, assignment: Untyped, generation: Untyped) -> None:
        """Do nothing, because `owned` already returns the current assignment."""


def candidates_of(members: Collection[Untyped]) -> list[Candidate]:
    """Return the members in Kafka's list as candidates.

    Two members may have the same name, but never the same id.
    """
    reported = [(member, json.loads(member.metadata.user_data)) for member in members]
    names = Counter(each["member"] for _, each in reported)
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
        for member, each in reported
    ]


def is_readable(member: Untyped) -> bool:
    """Whether a member sent what workers send when they join.

    `member` is as Kafka lists it to the group's leader, with `metadata` as bytes of any program.
    """
    try:
        metadata = ConsumerProtocolSubscription.decode(member.metadata)
        listed = SimpleNamespace(member_id=member.member_id, metadata=metadata)
        (candidate,) = candidates_of([listed])
    except Exception:  # noqa: BLE001 - foreign bytes can fail in any way
        return False
    return math.isfinite(candidate.capacity) and candidate.capacity >= 0


def _unique(reported: Mapping[str, Untyped], member: Untyped) -> str:
    return f"{reported['member']}|{member.member_id}"
