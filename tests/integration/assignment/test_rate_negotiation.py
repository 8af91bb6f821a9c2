"""Workers that share a rate, in many random lives: longer than a unit test may take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.sharing import hard_times


# Others each time.
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1_000_000), limit=st.sampled_from([5.0, 50.0, 2_000.0]))
def test_no_ticket_is_used_twice_within_a_second_whatever_happens(seed: int, limit: float) -> None:
    assert hard_times(seed, limit=limit, seconds=40).conflicts == []
