from bisect import bisect_right, insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.catalogue.subscription import DeliveryPolicy
from workers.delivery.pace import Pace
from workers.delivery.share import Lease, Share
from workers.delivery.tickets import tickets_of, union
from workers.delivery.time_slots import SKEW_MAX_S

EPSILON = 1e-9
START = 1_800_000_000.0


class Clock:
    """A worker's wall clock: a little wrong."""

    def __init__(self, skew: float) -> None:
        self.now, self.skew = START, skew

    def __call__(self) -> float:
        return self.now + self.skew


class Senders:
    """Workers that always have a message, each with some of the partitions and a clock."""

    def __init__(self, owned: list[set[int]], *, limit: int, skews: list[float]) -> None:
        self.partitions = sum(len(each) for each in owned)
        self.limit = limit
        self.clocks = [Clock(skew) for skew in skews]
        policy = DeliveryPolicy(rate=limit, adaptive_rate=False)
        self.paces = [Pace(policy, START, wall=clock) for clock in self.clocks]
        self.sent: list[float] = []
        self.leases: list[tuple[Lease, ...]] = [()] * len(owned)
        self.give(owned, START)

    def give(self, owned: list[set[int]], now: float) -> None:
        for number, indexes in enumerate(owned):
            tickets = tickets_of(frozenset(indexes), self.partitions)
            kept = [Lease(each.tickets & tickets, each.since) for each in self.leases[number]]
            added = tickets & ~union(lease.tickets for lease in kept)
            # Nobody begins with what another had before a second is over.
            leases = (*kept, Lease(added, since=now + 1 if now > START else now))
            self.paces[number].share(Share(self.limit, self.partitions, leases), now)
            self.leases[number] = leases

    def run(self, start: float, end: float, lateness: float = 0.0) -> None:
        for pace, clock in zip(self.paces, self.clocks, strict=True):
            clock.now = start
            while clock.now < end:
                if (wait := pace.wait(clock.now)) > 0:
                    clock.now += max(wait, 1e-6) + lateness
                    continue
                pace.sent(clock.now)
                insort(self.sent, clock.now)

    def most_in_a_second(self) -> int:
        sent = self.sent
        return max(
            index + 1 - bisect_right(sent, at - 1 + EPSILON) for index, at in enumerate(sent)
        )


SPLITS = [
    [{0, 1, 2, 3, 4, 5, 6, 7}],
    [{0, 3, 6}, {1, 4, 7}, {2, 5}],
    [{0}, {1}, {2, 3, 4, 5, 6, 7}],
]


@pytest.mark.parametrize("owned", SPLITS)
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8, 10, 50])
@pytest.mark.parametrize("lateness", [0.0, 0.004])
def test_workers_together_keep_the_limit_in_every_second_and_reach_it(
    owned: list[set[int]], limit: int, lateness: float
) -> None:
    skews = [0.0, SKEW_MAX_S, SKEW_MAX_S / 2][: len(owned)]
    senders = Senders(owned, limit=limit, skews=skews)
    senders.run(START, START + 40, lateness)
    assert senders.most_in_a_second() <= limit
    floors = sum(int(limit * len(each) / 8) for each in owned)
    reached = floors if limit >= 8 else limit / 1.05
    assert len(senders.sent) >= 0.97 * 38 * reached - 1


@pytest.mark.parametrize("limit", [1, 2, 5, 7])
def test_a_worker_whose_clock_steps_keeps_the_limit_for_itself(limit: int) -> None:
    senders = Senders([{0}, set(range(1, 8))], limit=limit, skews=[0.0, 0.0])
    del senders.paces[0], senders.clocks[0]
    for tenth in range(400):
        senders.clocks[0].skew = tenth * 0.377 % 3
        senders.run(START + tenth / 10, START + (tenth + 1) / 10)
    assert senders.most_in_a_second() <= limit
    assert senders.sent


def test_each_partition_gets_its_turn() -> None:
    senders = Senders([{0}, {1, 2, 3}], limit=1, skews=[0.0, 0.0])
    senders.run(START, START + 42)
    first = Senders([{0}, {1, 2, 3}], limit=1, skews=[0.0, 0.0])
    first.paces.pop()
    first.clocks.pop()
    first.run(START, START + 42)
    assert len(first.sent) == pytest.approx(len(senders.sent) / 4, abs=1)


@given(
    limit=st.integers(1, 7),
    moves=st.lists(
        st.tuples(st.floats(0.1, 4), st.lists(st.integers(0, 2), min_size=8, max_size=8)),
        min_size=1,
        max_size=4,
    ),
    skews=st.lists(st.floats(0, SKEW_MAX_S), min_size=3, max_size=3),
    lateness=st.sampled_from([0.0, 0.003, 0.02]),
)
def test_partitions_that_change_hands_take_no_limit_with_them(
    limit: int,
    moves: list[tuple[float, list[int]]],
    skews: list[float],
    lateness: float,
) -> None:
    senders = Senders([set(range(8)), set(), set()], limit=limit, skews=skews)
    moves = [*moves, (2.0, [1] * 8)]
    start = START
    for seconds, owners in [(2.0, [0] * 8), *moves]:
        owned = [{index for index in range(8) if owners[index] == each} for each in range(3)]
        senders.give(owned, start)
        senders.run(start, start + seconds, lateness)
        start += seconds
    assert senders.most_in_a_second() <= limit


def test_nothing_leaves_before_the_share_is_known() -> None:
    pace = Pace(DeliveryPolicy(rate=1), START)
    assert pace.wait(START) > 0
    pace.share(Share.owned(1, {0}, 1), START)
    assert pace.wait(START) == 0


def test_a_small_limit_waits_for_the_second_of_who_had_it_before() -> None:
    pace = Pace(DeliveryPolicy(rate=1), START)
    pace.share(Share.owned(1, {0, 1}, 2), START)
    assert pace.wait(START) == 1


def a_pace_in_turns() -> tuple[Pace, Clock]:
    """One of two workers that take turns, when its turn has come."""
    clock = Clock(0.0)
    pace = Pace(DeliveryPolicy(rate=1, adaptive_rate=False), START, wall=clock)
    pace.share(Share.owned(1, {0}, 2), START)
    while (wait := pace.wait(clock.now)) > 0:
        clock.now += wait
    return pace, clock


def test_a_request_may_be_written_a_little_later_in_its_time_slot() -> None:
    pace, clock = a_pace_in_turns()
    pace.sent(clock.now)
    clock.now += 0.02
    assert pace.moved(clock.now - 0.02, clock.now, out_of_turn=False)


def test_a_request_that_is_late_for_its_time_slot_waits_for_the_next_once() -> None:
    pace, clock = a_pace_in_turns()
    pace.sent(clock.now)
    clock.now += 0.05
    assert not pace.moved(clock.now - 0.05, clock.now, out_of_turn=False)
    assert pace.moved(clock.now - 0.05, clock.now, out_of_turn=True)


def test_a_request_is_not_written_in_the_time_slot_of_the_next_one() -> None:
    pace, clock = a_pace_in_turns()
    pace.sent(clock.now)
    begun = clock.now
    clock.now += pace.wait(clock.now)
    assert pace.wait(clock.now) == 0
    assert not pace.moved(begun, clock.now, out_of_turn=False)


def test_nothing_is_written_late_without_a_share() -> None:
    pace = Pace(DeliveryPolicy(rate=10), START)
    pace.share(Share.owned(10, {0}, 1), START)
    pace.sent(START)
    pace.forget_share()
    assert not pace.moved(START, START + 0.1, out_of_turn=True)
    assert pace.used(START + 0.1) == 1
    pace.unsent(START)
    assert pace.used(START + 0.1) == 0
