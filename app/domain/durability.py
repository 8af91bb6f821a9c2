"""Finds out where acknowledged messages can be lost because a topic has too few replicas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

NAMED_MAX = 10


class Replication(NamedTuple):
    """How many replicas new topics have (`factor`), and how many of them must be in sync.

    If `min_in_sync` is None, all replicas but one must be in sync.
    """

    factor: int
    min_in_sync: int | None = None

    def in_sync(self, replicas: int | None = None) -> int:
        """Return how many replicas of a topic must be in sync.

        `replicas` is the number of the topic's replicas. None: as many as new topics have.
        """
        there = self.factor if replicas is None else replicas
        if self.min_in_sync is None:
            return max(1, there - 1)
        return min(self.min_in_sync, there)


class Copies(NamedTuple):
    """How many replicas a topic has, and how many of them must be in sync.

    If `min_in_sync` is None, this number is unknown.
    """

    replicas: int
    min_in_sync: int | None = None


def risks(
    replication: Replication,
    *,
    by_leader: Sequence[str],
    there: Mapping[str, Copies],
    with_names: bool,
) -> Iterator[str]:
    """Yield a sentence for each reason why acknowledged messages can be lost.

    Args:
        replication: The setting for new topics.
        by_leader: The topics for which the acknowledgement of one replica is enough (ack LEADER).
        there: The existing topics, each with the number of its replicas.
        with_names: Whether a sentence about topics also names the first of them. It always says how
            many they are.
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
