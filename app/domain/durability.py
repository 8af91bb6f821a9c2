"""Describes where acknowledged messages can be lost, because a topic has too few replicas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

NAMED_MAX = 10


class Replication(NamedTuple):
    """The number of replicas of new topics, and how many must be in sync; None: all but one."""

    factor: int
    min_in_sync: int | None = None

    def in_sync(self, replicas: int | None = None) -> int:
        """Return how many of a topic's replicas must be in sync.

        `replicas` is how many replicas the topic has; None: as many as new topics have.
        """
        there = self.factor if replicas is None else replicas
        if self.min_in_sync is None:
            return max(1, there - 1)
        return min(self.min_in_sync, there)


class Copies(NamedTuple):
    """The number of a topic's replicas, and how many of them must be in sync; None: unknown."""

    replicas: int
    min_in_sync: int | None = None


def risks(
    replication: Replication,
    *,
    by_leader: Sequence[str],
    there: Mapping[str, Copies],
    with_names: bool,
) -> Iterator[str]:
    """Describe where acknowledged messages can be lost, a sentence for each reason.

    Args:
        replication: The setting for new topics.
        by_leader: The topics with ack LEADER.
        there: The existing topics with the numbers of their replicas.
        with_names: Whether the first topics of each reason are named; otherwise they are counted.
    """
    named = _named if with_names else _unnamed
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
        yield (
            f"{len(by_leader)} topics have ack LEADER: what only the leader of a partition has is"
            f" lost when that broker dies{named(by_leader)}"
        )
    yield from _risks_there(there, named)


def _risks_there(
    there: Mapping[str, Copies], named: Callable[[Sequence[str]], str]
) -> Iterator[str]:
    if single := sorted(name for name, copies in there.items() if copies.replicas == 1):
        yield (
            f"{len(single)} of {len(there)} topics in Kafka have one replica: what its broker has"
            f" acknowledged is lost with its disk{named(single)}"
        )
    loose = (name for name, copies in there.items() if copies.min_in_sync == 1 < copies.replicas)
    if alone := sorted(loose):
        yield (
            f"{len(alone)} of {len(there)} topics in Kafka have min.insync.replicas 1: what is"
            " acknowledged while only one replica is in sync is lost with that one"
            f"{named(alone)}"
        )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f": {', '.join(names[:NAMED_MAX])}{more}"


def _unnamed(_names: Sequence[str]) -> str:
    return ""
