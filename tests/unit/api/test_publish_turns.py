"""When a batch lets other requests have their turn."""

import pytest

from app.api.publish.batch_slices import TURN_S, BatchTurns


@pytest.mark.parametrize(
    ("size", "took_s", "is_over"),
    [(10, 0.0, False), (1_001, 0.0, True), (10, TURN_S / 2, False), (10, TURN_S * 2, True)],
)
def test_a_turn_ends_by_bytes_or_by_time(size: int, took_s: float, *, is_over: bool) -> None:
    now = 7.0
    turns = BatchTurns(bytes_max=1_000, clock=lambda: now)
    now += took_s
    assert turns.is_over(size) == is_over


def test_the_next_turn_begins_anew() -> None:
    now = 7.0
    turns = BatchTurns(bytes_max=1_000, clock=lambda: now)
    now += TURN_S * 2
    assert turns.is_over(2_000)
    turns.begin()
    assert not turns.is_over(1_000)
