"""How workers share a rate by demand: the sum never exceeds the limit, and who needs it has it."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.sharing import Talks

PARTITIONS = 6
LIMITS = [5.0, 50.0, 2_000.0]


def some_talks(seed: int = 1, *, limit: float = 50.0, workers: int = 3) -> Talks:
    talks = Talks(Random(seed), workers=workers, limit=limit, partitions=PARTITIONS)
    talks.run(7)
    return talks


@pytest.mark.parametrize("limit", LIMITS)
def test_who_has_all_the_traffic_gets_nearly_all_of_the_rate(limit: float) -> None:
    talks = some_talks(limit=limit)
    assert talks.fraction("w0") == pytest.approx(1 / 3)
    talks.talkers["w0"].need = 10 * limit
    talks.run(8)
    assert talks.fraction("w0") >= 0.95
    assert talks.conflicts == []


@pytest.mark.parametrize("limit", LIMITS)
def test_who_needs_its_part_again_has_it_in_a_few_seconds(limit: float) -> None:
    talks = some_talks(limit=limit)
    talks.talkers["w0"].need = 10 * limit
    talks.run(8)
    talks.talkers["w1"].need = 10 * limit
    talks.run(8)
    assert talks.fraction("w1") >= 0.33
    assert talks.fraction("w0") + talks.fraction("w1") >= 0.95
    assert talks.conflicts == []


def test_two_that_need_more_get_equally_much_of_what_is_left() -> None:
    talks = some_talks(limit=2_000)
    talks.talkers["w0"].need = talks.talkers["w1"].need = 20_000
    talks.run(8)
    assert talks.fraction("w0") == pytest.approx(talks.fraction("w1"), abs=0.02)
    assert talks.fraction("w0") >= 0.48


def test_when_nobody_needs_more_nothing_is_said() -> None:
    talks = some_talks(limit=50)
    for talker in talks.talkers.values():
        talker.need = 10.0
    talks.run(8)
    assert talks.notes == {}


def test_what_is_not_needed_any_more_is_given_back_and_not_talked_about() -> None:
    talks = some_talks()
    talks.talkers["w0"].need = 500
    talks.run(8)
    talks.talkers["w0"].need = 0
    talks.run(15)
    assert talks.notes == {}
    assert [talks.fraction(name) for name in talks.talkers] == pytest.approx([1 / 3] * 3)


def test_who_had_borrowed_nearly_all_keeps_what_is_its_own_in_silence() -> None:
    talks = some_talks()
    talks.talkers["w0"].need = 500
    talks.run(8)
    borrower, lender = talks.talkers["w0"], talks.talkers["w1"]
    for talker in (borrower, lender):
        talker.cut_off = True
        talks.run(6)
        talker.negotiation.fall_silent()
        talker.share = talker.negotiation.share(talks.now + talker.skew)
    # Half of nearly all is more than its third; the other has half of its third.
    rates = [t.share.rate(t.held(talks.now)) / talks.limit for t in (borrower, lender)]
    assert rates == pytest.approx([1 / 3, 1 / 6])


def test_who_is_cut_off_has_only_its_own_when_its_loans_are_over() -> None:
    talks = some_talks()
    talks.talkers["w0"].need = 500
    talks.run(8)
    talks.talkers["w0"].cut_off = True
    talks.run(5)
    assert talks.fraction("w0") == pytest.approx(1 / 3)
    talks.run(5)
    assert talks.fraction("w1") == pytest.approx(1 / 3)
    assert talks.conflicts == []


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1_000_000), limit=st.sampled_from(LIMITS))
def test_no_ticket_is_used_twice_within_a_second_whatever_happens(seed: int, limit: float) -> None:
    assert hard_times(seed, limit=limit, seconds=25).conflicts == []


def hard_times(seed: int, *, limit: float, seconds: int) -> Talks:
    """Demand that comes and goes, and now and then something that goes wrong."""
    random = Random(seed)
    talks = Talks(random, workers=4, limit=limit, partitions=PARTITIONS)
    for _ in range(seconds):
        alive = [name for name, each in talks.talkers.items() if not each.dead]
        talker = talks.talkers[random.choice(alive)]
        talker.need = random.choice([0.0, 0.0, limit / 10, limit / 2, 10 * limit])
        fate = random.random()
        if fate < 0.15:
            index, to = random.randrange(PARTITIONS), random.choice(alive)
            if talks.owned_by(to) and talks.owners[index] != to:
                talks.move(index, to, after=random.choice([0.0, 0.1, 1.0]))
        elif fate < 0.25:
            talks.hang(talker.name, random.uniform(0.5, 8))
        elif fate < 0.35:
            talker.cut_off = not talker.cut_off
        elif fate < 0.4 and len(alive) > 2:
            heirs = [name for name in alive if name != talker.name and talks.owned_by(name)]
            if heirs:
                talks.kill(talker.name, heirs)
        talks.run(1)
    return talks
