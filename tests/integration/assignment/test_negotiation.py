"""How workers share a rate by demand: the sum never exceeds the limit, and who needs it has it."""

from random import Random

import pytest

from tests.fakes.sharing import PARTITIONS, Talks, hard_times

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
    # A loan is over after four, and a round that is slow or fails takes two.
    talks.run(10)
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


@pytest.mark.parametrize("limit", LIMITS)
def test_no_ticket_is_used_twice_within_a_second_in_hard_times(limit: float) -> None:
    assert hard_times(seed=1, limit=limit, seconds=30).conflicts == []
