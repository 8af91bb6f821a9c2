"""Decides which member must own which partition, and what a member has to do (no I/O)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.message import Partition
from app.log.rendezvous import rendezvous


class PartitionSlot(NamedTuple):
    """A partition that exists now. After its topic is recreated, it has another topic id."""

    topic_id: int
    number: int
    topic: str

    @property
    def partition(self) -> Partition:
        """The same partition, with its topic's name instead of the topic id."""
        return Partition(self.topic, self.number)


@dataclass(frozen=True, slots=True)
class MemberOffer:
    """What a member offers to the group: its capacity, and the topics it subscribes to."""

    capacity: float
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class View:
    """The state of the group: running members by id, and the owner (if any) of each partition."""

    members: Mapping[int, MemberOffer]
    owners: Mapping[PartitionSlot, int | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a member has to do.

    Attributes:
        lost: partitions that the member owned, and that already belong to others.
        revoke: partitions that the member owns, and that must move to others.
        take: partitions that nobody owns, and that this member takes.
    """

    lost: frozenset[PartitionSlot]
    revoke: frozenset[PartitionSlot]
    take: frozenset[PartitionSlot]


class Shares:
    """Decides which member must own each partition, by rendezvous hashing.

    Results are cached until members change.
    """

    def __init__(self) -> None:
        self._members: Mapping[int, MemberOffer] = {}
        self._sharing: dict[str, dict[str, float]] = {}
        self._winners: dict[PartitionSlot, int | None] = {}

    def winner(self, slot: PartitionSlot, members: Mapping[int, MemberOffer]) -> int | None:
        """Return the id of the member that must own the partition `slot`.

        The result is None if no member subscribes to the topic.
        """
        if members != self._members:
            self._members = members
            self._sharing.clear()
            self._winners.clear()
        if slot not in self._winners:
            sharing = self._of_topic(slot.topic)
            won = rendezvous(sharing, f"{slot.topic}/{slot.number}") if sharing else None
            self._winners[slot] = None if won is None else int(won)
        return self._winners[slot]

    def _of_topic(self, topic: str) -> dict[str, float]:
        if topic not in self._sharing:
            self._sharing[topic] = {
                str(member_id): member.capacity
                for member_id, member in self._members.items()
                if topic in member.topics
            }
        return self._sharing[topic]


def planned(
    view: View,
    me: int,
    *,
    held: Collection[PartitionSlot],
    revoking: Collection[PartitionSlot],
    shares: Shares,
) -> Plan:
    """Return what the member with the id `me` has to do.

    The member owns the partitions in `held`, and is already giving up the partitions in `revoking`.
    """
    wanted = {slot for slot in view.owners if shares.winner(slot, view.members) == me}
    lost = frozenset(slot for slot in held if view.owners.get(slot) != me)
    return Plan(
        lost=lost,
        revoke=frozenset(held) - lost - wanted - frozenset(revoking),
        take=frozenset(slot for slot in wanted if view.owners[slot] is None),
    )
