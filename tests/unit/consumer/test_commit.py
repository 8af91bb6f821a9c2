"""The text that is committed with an offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.commit import (
    METADATA_BYTES_MAX,
    Progress,
    decode_runs,
    encode_runs,
    initial_metadata,
    parse_progress,
)


def test_says_nothing_for_another_incarnation() -> None:
    written = Progress(subscription_id="old", offset=5, delivered=9).metadata()
    assert parse_progress("new", 5, written) is None


@pytest.mark.parametrize("text", ["", "reset by hand", "2 s1 d=5"])
def test_takes_the_position_from_a_tool_that_reset_it(text: str) -> None:
    found = parse_progress("s1", 42, text)
    assert found == Progress(subscription_id="s1", offset=42, seek=None)


def test_a_new_subscription_has_delivered_nothing() -> None:
    assert parse_progress("s1", 3, initial_metadata("s1")) == Progress(
        subscription_id="s1", offset=3
    )


@pytest.mark.parametrize("text", ["1 s1 f=%%%", "1 s1 d=many", "1 s1 f=gA==", "1 s1 f=AQ=="])
def test_a_damaged_text_still_gives_the_position(text: str) -> None:
    found = parse_progress("s1", 8, text)
    assert found == Progress(subscription_id="s1", offset=8, seek=None)


def test_ignores_parts_it_does_not_know() -> None:
    assert parse_progress("s1", 8, "1 s1 z=1 d=2") == Progress(
        subscription_id="s1", offset=8, delivered=2
    )


def test_run_lengths_survive_the_way_there_and_back() -> None:
    ranges = ((10, 11), (200, 20_000), (1_000_000, 1_000_001))
    assert decode_runs(10, encode_runs(10, ranges)) == ranges


def test_reads_what_a_version_wrote_that_did_not_count_attempts() -> None:
    written = Progress(subscription_id="s1", offset=8, delivered=2, finished=((9, 12),)).metadata()
    assert " a=" not in written
    read = parse_progress("s1", 8, written)
    assert read is not None
    assert read.attempts == ()


@given(st.dictionaries(st.integers(0, 1 << 40), st.integers(1, 1 << 20)), st.integers(0, 1 << 40))
def test_attempts_survive_the_way_there_and_back(tried: dict[int, int], offset: int) -> None:
    attempts = tuple(sorted((offset + gap, count) for gap, count in tried.items()))
    written = Progress(subscription_id="s1", offset=offset, attempts=attempts)
    assert parse_progress("s1", offset, written.metadata()) == written


@pytest.mark.parametrize("gap", [1, 200, 1 << 33])
def test_as_many_attempts_as_fit_are_kept_those_of_the_oldest_messages(gap: int) -> None:
    attempts = tuple((number * gap, 3) for number in range(5_000))
    written = Progress(subscription_id="s" * 32, offset=0, attempts=attempts).metadata()
    assert METADATA_BYTES_MAX - 16 < len(written) <= METADATA_BYTES_MAX
    read = parse_progress("s" * 32, 0, written)
    assert read is not None
    assert attempts[: len(read.attempts)] == tuple(read.attempts)
    assert len(read.attempts) >= 400


@pytest.mark.parametrize("text", ["1 s1 a=%%%", "1 s1 a=gA==", "1 s1 a=AQ=="])
def test_damaged_attempts_still_give_the_position(text: str) -> None:
    found = parse_progress("s1", 8, text)
    assert found == Progress(subscription_id="s1", offset=8, seek=None)
