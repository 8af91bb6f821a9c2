"""How much CPU it takes to share out 20,000 partitions among workers, and what a new worker moves.

The leader of the workers' group in Kafka does this for all workers, in each round of a rebalance.
Beside it stands rendezvous hashing, which asks each worker about each partition. Nothing else runs:
neither Kafka nor workers.
"""

import time
from collections.abc import Mapping
from typing import Final

import pytest

from app.domain.message import Partition
from app.log.kafka.assignor import Candidate, share_out
from app.log.rendezvous import rendezvous
from tests.benchmarks.figures import Report

TOPICS: Final = {f"group{number % 50}.topic{number}": range(20) for number in range(1_000)}
PARTITIONS: Final = sum(map(len, TOPICS.values()))
ROUNDS: Final = 5

Shares = Mapping[str, frozenset[Partition]]


@pytest.mark.parametrize("workers", [10, 100])
def test_twenty_thousand_partitions(workers: int) -> None:
    report = Report(f"assignment-{workers}", f"{PARTITIONS:,} partitions, {workers} workers")
    report.add("hash ring: all at once", [_first(workers) for _ in range(ROUNDS)])
    report.add("hash ring: one more joins", [_joins(workers) for _ in range(ROUNDS)])
    report.add("rendezvous hashing: all at once", [_by_rendezvous(workers)])
    report.write()


def _first(workers: int) -> dict[str, float]:
    shares, used = _timed(_members(workers, {}))
    counts = [len(share) for share in shares.values()]
    return {"CPU ms": used, "fewest": min(counts), "most": max(counts)}


def _joins(workers: int) -> dict[str, float]:
    before, _ = _timed(_members(workers, {}))
    shares, used = _timed(_members(workers + 1, before))
    # The new worker gets them in the next round, when their owners have released them.
    moved = sum(len(before[member] - shares[member]) for member in before)
    return {"CPU ms": used, "moved, of an equal share": moved / PARTITIONS * (workers + 1)}


def _timed(members: list[Candidate]) -> tuple[Shares, float]:
    begun = time.process_time()
    shares = share_out(members, TOPICS)
    return shares, 1e3 * (time.process_time() - begun)


def _members(count: int, owned: Shares) -> list[Candidate]:
    return [
        Candidate(
            id=f"id-{number}",
            name=f"worker-{number}",
            capacity=1.0,
            topics=frozenset(TOPICS),
            owned=owned.get(f"id-{number}", frozenset()),
        )
        for number in range(count)
    ]


def _by_rendezvous(workers: int) -> dict[str, float]:
    members = {f"worker-{number}": 1.0 for number in range(workers)}
    counts = dict.fromkeys(members, 0)
    begun = time.process_time()
    for topic, indexes in TOPICS.items():
        for index in indexes:
            counts[rendezvous(members, f"{topic}/{index}")] += 1
    used = 1e3 * (time.process_time() - begun)
    return {"CPU ms": used, "fewest": min(counts.values()), "most": max(counts.values())}
