"""Where a moved subscription starts, whatever was committed last."""

from dataclasses import replace

import pytest

from app.domain.catalogue.seek import Seek, sought
from app.domain.commit import Progress, parse_progress

FIRST = Seek(number=1, offsets=(10, 20))
SECOND = Seek(number=2, offsets=(30, 40), replaced=(7, None))
BUSY = Progress(
    subscription_id="s",
    offset=5,
    finished=((6, 8),),
    oldest_opened_ms=1,
    oldest_elapsed_ms=2,
    delivered=3,
    discarded=4,
    filtered=5,
    volume=6,
)


def start(progress: Progress, seek: Seek | None, partition: int = 0) -> tuple[int, int | None]:
    found = sought(progress, seek, partition=partition)
    return found.offset, found.seek


def test_one_that_was_never_moved_starts_where_it_was() -> None:
    assert sought(BUSY, None, partition=0) is BUSY


def test_an_older_commit_is_left_behind_with_all_but_its_counts() -> None:
    assert sought(BUSY, FIRST, partition=1) == Progress(
        subscription_id="s", offset=20, delivered=3, discarded=4, filtered=5, volume=6, seek=1
    )
    assert start(replace(BUSY, seek=1), SECOND) == (30, 2)


@pytest.mark.parametrize("number", [2, 3])
def test_a_commit_that_knows_of_the_move_counts(number: int) -> None:
    known = replace(BUSY, seek=number)
    assert sought(known, SECOND, partition=0) is known


def test_a_partition_that_was_added_later_stays_where_it_is() -> None:
    assert start(BUSY, FIRST, 2) == (5, 1)


def test_what_a_tool_committed_counts_unless_it_was_there_before() -> None:
    assert start(replace(BUSY, seek=None), SECOND) == (5, 2)
    assert start(replace(BUSY, offset=7, seek=None), SECOND) == (30, 2)
    assert start(replace(BUSY, offset=7, seek=None), SECOND, 1) == (7, 2)


def test_moves_are_numbered_by_their_times_and_know_what_they_replace() -> None:
    first = Seek.after(None, {1: 20, 0: 10}, {}, now_ms=1)
    assert first == Seek(number=1, offsets=(10, 20), replaced=(None, None))
    for now_ms, number in ((0, 2), (1, 2), (9, 9)):
        moved = Seek.after(first, {0: 30, 1: 40}, {0: 7}, now_ms=now_ms)
        assert moved == replace(SECOND, number=number)


def test_the_number_of_a_move_is_read_as_it_was_committed() -> None:
    moved = replace(BUSY, oldest_elapsed_ms=None, seek=12)
    assert parse_progress("s", 5, moved.metadata()) == moved
    never = parse_progress("s", 5, replace(BUSY, seek=0).metadata())
    assert never is not None
    assert never.seek == 0
    for foreign in ("", "by hand", "1 s f=?"):
        found = parse_progress("s", 5, foreign)
        assert found is not None
        assert (found.offset, found.seek) == (5, None)
