"""Who should own which partition, and what a member has to do about it: decisions only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.message import Partition
from app.log.rendezvous import rendezvous


class PartitionSlot(NamedTuple):
    """A partition of a topic as it is now: one of the same name created anew has another id."""

    topic_id: int
    number: int
    topic: str

    @property
    def partition(self) -> Partition:
        """The partition by its name."""
        return Partition(self.topic, self.number)


@dataclass(frozen=True, slots=True)
class MemberOffer:
    """What a member offers."""

    capacity: float
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class View:
    """The living members by id, and the owner, if any, of each slot we care for."""

    members: Mapping[int, MemberOffer]
    owners: Mapping[PartitionSlot, int | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: `lost` is no longer ours, `revoke` shall be another's, `take` is free."""

    lost: frozenset[PartitionSlot]
    revoke: frozenset[PartitionSlot]
    take: frozenset[PartitionSlot]


class Shares:
    """Shares by rendezvous hashing, kept until the members change."""

    def __init__(self) -> None:
        self._members: Mapping[int, MemberOffer] = {}
        self._sharing: dict[str, dict[str, float]] = {}
        self._winners: dict[PartitionSlot, int | None] = {}

    def winner(self, slot: PartitionSlot, members: Mapping[int, MemberOffer]) -> int | None:
        """The member that should own `slot`; None if nobody subscribes to its topic."""
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
    """What `me`, who holds `held` and is giving up `revoking` of it, has to do in this view."""
    wanted = {slot for slot in view.owners if shares.winner(slot, view.members) == me}
    lost = frozenset(slot for slot in held if view.owners.get(slot) != me)
    return Plan(
        lost=lost,
        revoke=frozenset(held) - lost - wanted - frozenset(revoking),
        take=frozenset(slot for slot in wanted if view.owners[slot] is None),
    )
