"""A thread that does not get the CPU when it wants it shares the machine with others that wait."""

import pytest

from workers.consumer.cpu_contention import CONTENDED_SHARE, MEMORY_SECONDS, CpuContention

TURN_S = 0.001


def after(turns: int, *, lost: float, contention: CpuContention | None = None) -> CpuContention:
    contention = contention or CpuContention()
    for _ in range(turns):
        contention.ran(took_s=TURN_S, cpu_s=TURN_S * (1 - lost))
    return contention


def test_nothing_is_known_at_first() -> None:
    assert not CpuContention().is_high()


@pytest.mark.parametrize(
    ("lost", "contended"),
    [(0.0, False), (0.0003, False), (0.004, False), (0.006, True), (0.5, True)],
)
def test_it_is_crowded_where_more_time_is_lost_than_on_a_free_core(
    lost: float,
    contended: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert after(1_000, lost=lost).is_high() is contended


def test_one_stretch_without_the_cpu_among_many_is_enough() -> None:
    contention = after(500, lost=0.0)
    contention.ran(took_s=0.004, cpu_s=0.0005)
    assert contention.is_high()


def test_it_is_forgotten_when_the_core_is_free_again() -> None:
    contention = after(1_000, lost=0.05)
    in_a_memory = int(MEMORY_SECONDS / TURN_S)
    assert after(in_a_memory, lost=0.0, contention=contention).is_high()
    assert not after(2 * in_a_memory, lost=0.0, contention=contention).is_high()


def test_clocks_that_disagree_a_little_are_no_crowd() -> None:
    contention = CpuContention()
    for _ in range(1_000):
        contention.ran(took_s=TURN_S, cpu_s=TURN_S * (1 + CONTENDED_SHARE))
    assert not contention.is_high()
