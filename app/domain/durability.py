"""Where messages that were acknowledged can be lost, by how many replicas have them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

NAMED_MAX = 10


class Replication(NamedTuple):
    """Replicas of new topics, and how many of them must be in sync; None: all but one."""

    factor: int
    min_in_sync: int | None = None

    def in_sync(self, replicas: int | None = None) -> int:
        """How many must be in sync of a topic with so many `replicas`; None: of a new one."""
        there = self.factor if replicas is None else replicas
        if self.min_in_sync is None:
            return max(1, there - 1)
        return min(self.min_in_sync, there)


def risks(replication: Replication, *, by_leader: Sequence[str]) -> Iterator[str]:
    """In words, where acknowledged messages can be lost; `by_leader` are topics with LEADER."""
    if replication.factor == 1:
        yield (
            "ANGELIA_REPLICATION_FACTOR is 1: what a broker has acknowledged is lost with its disk"
        )
    elif replication.in_sync() == 1:
        yield (
            f"min.insync.replicas of new topics is 1, of {replication.factor}: what is acknowledged"
            " while only one replica is in sync is lost with that one"
        )
    if by_leader:
        named = ", ".join(by_leader[:NAMED_MAX])
        more = f" and {len(by_leader) - NAMED_MAX} more" if len(by_leader) > NAMED_MAX else ""
        yield (
            "ack of these topics is LEADER: what only the leader of a partition has is lost when"
            f" that broker dies: {named}{more}"
        )
