"""The text that is committed with an offset."""

import pytest

from app.domain.commit import Progress, decode_runs, encode_runs, initial_metadata, parse_progress


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
