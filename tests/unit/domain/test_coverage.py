"""Where offsets are: in the log, in the archive, or in neither."""

from datetime import UTC, datetime

import pytest

from app.domain.replay.coverage import (
    Dated,
    Stretch,
    merged,
    milliseconds,
    reach,
    since_then,
    until_then,
)


@pytest.mark.parametrize(
    ("wanted", "log_start", "kept", "archived", "log", "gone"),
    [
        # All in the log, whatever is archived of it.
        ((5, 9), 0, [(0, 9)], [], (5, 9), 0),
        ((5, 9), 5, [(0, 9)], [], (5, 9), 0),
        # One part in each, and the archive reaches into the log.
        ((2, 9), 5, [(0, 7)], [(2, 5)], (5, 9), 0),
        # All before the log.
        ((2, 4), 5, [(0, 7)], [(2, 4)], (4, 4), 0),
        # Gaps before, within and behind what is archived.
        ((0, 20), 15, [(2, 4), (6, 9)], [(2, 4), (6, 9)], (15, 20), 10),
        ((0, 20), 15, [], [], (15, 20), 15),
        ((3, 8), 15, [(9, 12)], [], (8, 8), 5),
        # Nothing is wanted.
        ((7, 7), 15, [(0, 15)], [], (7, 7), 0),
        # The log is empty.
        ((0, 15), 15, [(0, 15)], [(0, 15)], (15, 15), 0),
    ],
)
def test_each_offset_is_in_one_place_or_counted_as_gone(
    wanted: tuple[int, int],
    log_start: int,
    kept: list[tuple[int, int]],
    *,
    archived: list[tuple[int, int]],
    log: tuple[int, int],
    gone: int,
) -> None:
    found = reach(Stretch(*wanted), log_start=log_start, kept=[Stretch(*each) for each in kept])
    assert (list(found.archived), found.log, found.gone) == (archived, log, gone)
    there = sum(each.end - each.start for each in (*found.archived, found.log))
    assert there + found.gone == wanted[1] - wanted[0]
    first = [*archived, log][0][0]
    assert found.first == first


@pytest.mark.parametrize(
    ("kept", "dated", "first"),
    [
        # Nothing is archived: all before the log may be of the time.
        ([], Dated(), 0),
        # All that is archived is older: what comes behind it may be of the time.
        ([(0, 60)], Dated(), 60),
        ([(0, 100)], Dated(), 100),
        # The first piece of the time comes behind an older one, next to it or behind a gap.
        ([(10, 100)], Dated(first=40, first_ms=900), 40),
        ([(10, 30), (40, 100)], Dated(first=40, first_ms=900), 30),
        # It is the first at all, and has something older, or not.
        ([(10, 100)], Dated(first=10, first_ms=400), 10),
        ([(10, 100)], Dated(first=10, first_ms=500), 0),
        # The archive reaches into the log.
        ([(0, 200)], Dated(first=150, first_ms=400), 100),
    ],
)
def test_what_comes_before_something_older_is_older(
    kept: list[tuple[int, int]], dated: Dated, first: int
) -> None:
    stretches = [Stretch(*each) for each in kept]
    assert since_then(stretches, dated, since_ms=500, log_start=100) == first


@pytest.mark.parametrize(
    ("kept", "dated", "end"),
    [
        ([], Dated(), 100),
        # All that is archived is newer: what comes before it may be of the time.
        ([(40, 100)], Dated(), 40),
        ([(0, 60)], Dated(end=60), 100),
        ([(0, 60)], Dated(end=20), 20),
        ([(0, 20), (30, 60)], Dated(end=20), 30),
        ([(0, 200)], Dated(end=150), 100),
    ],
)
def test_what_comes_behind_something_newer_is_newer(
    kept: list[tuple[int, int]], dated: Dated, end: int
) -> None:
    assert until_then([Stretch(*each) for each in kept], dated, log_start=100) == end


def test_stretches_that_touch_are_one() -> None:
    given = [
        Stretch(5, 7),
        Stretch(0, 2),
        Stretch(2, 4),
        Stretch(6, 9),
        Stretch(6, 7),
        Stretch(3, 3),
    ]
    assert merged(given) == [(0, 4), (5, 9)]
    assert merged([]) == []


def test_times_before_the_epoch_are_the_epoch() -> None:
    assert milliseconds(datetime(1960, 1, 1, tzinfo=UTC)) == 0
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1_000
