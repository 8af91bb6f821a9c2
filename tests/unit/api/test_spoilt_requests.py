"""Requests that are spoilt anywhere are read as h11 reads them, or refused."""

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.request_reading import GOOD_REQUESTS, difference
from tests.fakes.spoiling import Spoiling, spoilt

SPOILINGS = st.lists(
    st.builds(Spoiling, st.integers(0, 5), st.integers(0, 400), st.integers(0, 255)), max_size=4
)


@given(
    good=st.sampled_from(GOOD_REQUESTS),
    spoilings=SPOILINGS,
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
async def test_a_request_that_is_spoilt_anywhere_is_read_as_h11_reads_it_or_refused(
    good: bytes, spoilings: list[Spoiling], cuts: list[int]
) -> None:
    assert await difference(spoilt(good, spoilings), cuts) is None
