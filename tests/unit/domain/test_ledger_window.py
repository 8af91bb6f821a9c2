"""What a ledger says of a time: proved only where entries cover all of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from angelia_client import Ledger as Answer
from app.api.management.insight.ledger_bodies import ledger_read
from app.cli.reports.ledgers import conclusions
from app.domain.insight.ledger import Doubt, LedgerEntry, PartitionSums, Sums
from app.domain.insight.ledger_missing import RANGES_MAX
from app.domain.insight.ledger_window import DEFAULT, Survey, Window, requested_window

NOON = datetime(2026, 1, 30, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)


def an_entry(number: int, *doubts: Doubt, sums: Sums | None = None) -> LedgerEntry:
    """Of the day that ended with that noon."""
    part = PartitionSums(partition=0, sums=sums or Sums(), doubts=frozenset(doubts))
    until = NOON + number * DAY
    return LedgerEntry(
        number=number, since=until - DAY, until=until, partitions=(part,), hash="", previous=""
    )


def a_survey(since: float, until: float, *, born: datetime | None = NOON) -> Survey:
    return Survey(Window(NOON + since * DAY, NOON + until * DAY), born=born, newest=2)


@pytest.mark.parametrize(
    ("since", "until", "numbers", "is_proved"),
    [
        (0, 2, (1, 2), True),
        # Within entries, and before it was created.
        (0.5, 1.5, (1, 2), True),
        (-5, 2, (1, 2), True),
        # From the last entry until now nobody has looked.
        (0, 2.1, (1, 2), False),
        (0, 3, (2, 3), False),
        (0, 3, (1, 3), False),
        (0, 1, (), False),
    ],
)
def test_a_time_is_proved_when_entries_cover_all_of_it(
    since: float, until: float, numbers: tuple[int, ...], *, is_proved: bool
) -> None:
    survey = a_survey(since, until)
    survey.add([an_entry(number) for number in numbers])
    found = survey.ledger()
    assert found.is_proved == is_proved
    assert found.doubts == (() if is_proved else (Doubt.NOT_COVERED,))
    covered = Window(NOON + (numbers[0] - 1) * DAY, NOON + numbers[-1] * DAY) if numbers else None
    assert found.covered == covered


def test_who_was_created_at_no_known_time_is_covered_by_what_is_there() -> None:
    survey = a_survey(-1, 1, born=None)
    survey.add([an_entry(1)])
    assert survey.ledger().doubts == (Doubt.NOT_COVERED,)


def test_sums_and_doubts_are_of_all_entries_and_the_newest_are_kept() -> None:
    survey = a_survey(0, 3)
    survey.add([an_entry(1, Doubt.GONE, sums=Sums(published=3, delivered=2, unfinished=1))])
    survey.add([an_entry(2, sums=Sums(carried=1, published=5, delivered=6))])
    survey.add([an_entry(3, Doubt.MOVED, sums=Sums(published=1, unfinished=1))])
    found = survey.ledger()
    assert found.sums == Sums(published=9, delivered=8, unfinished=1)
    assert found.doubts == (Doubt.MOVED, Doubt.GONE)
    assert (found.count, [each.number for each in found.entries]) == (3, [2, 3])


def test_a_time_ends_up_to_where_there_should_be_an_entry() -> None:
    def meant(since: datetime | None, last: datetime | None) -> Window:
        return requested_window(since, None, last=last, now=NOON)

    assert meant(None, None) == Window(MIDNIGHT - DEFAULT, MIDNIGHT)
    # The runner was away for three days: that is not proved.
    assert meant(None, MIDNIGHT - 3 * DAY).until == MIDNIGHT
    assert meant(None, NOON - DAY / 24).until == NOON - DAY / 24
    assert meant(MIDNIGHT, None) == Window(MIDNIGHT, NOON)
    said = Window(NOON - DAY, NOON - DAY / 2)
    assert requested_window(*said, last=NOON, now=NOON) == said
    assert requested_window(None, NOON, last=None, now=NOON) == Window(NOON - DEFAULT, NOON)


def test_the_client_and_the_command_read_what_the_service_says_of_a_time() -> None:
    survey = a_survey(0, 1)
    entry = an_entry(1, sums=Sums(published=2, delivered=1, missing=1))
    survey.add([replace(entry, among=((3, 20, 22), (4, 0, 1)))])
    read = Answer.of(ledger_read(survey.ledger()).answered())
    assert (read.proved, read.covered_from, read.covered_to) == (True, NOON, NOON + DAY)
    assert [(each.number, each.sums.missing) for each in read.entries] == [(1, 1)]
    proved, missing = conclusions(read)
    assert "is proved. 1 entries" in proved
    assert missing == (
        "Entry 1 misses 1, among offsets 20 to before 22 of partition 3,"
        " offsets 0 to before 1 of partition 4"
    )


def test_a_time_without_an_entry_is_said_to_have_none() -> None:
    nothing = Answer.of(ledger_read(a_survey(0, 1).ledger()).answered())
    assert (nothing.proved, nothing.covered_from, nothing.entries) == (False, None, ())
    [said] = conclusions(nothing)
    assert "is not proved (NOT_COVERED)" in said


def test_of_too_many_ranges_the_first_are_shown_and_that_there_are_more() -> None:
    survey = a_survey(0, 1)
    among = tuple((0, number, number + 1) for number in range(0, 2 * RANGES_MAX + 2, 2))
    survey.add([replace(an_entry(1, sums=Sums(missing=1)), among=among)])
    [entry] = Answer.of(ledger_read(survey.ledger()).answered()).entries
    assert (len(entry.missing_among), entry.missing_among_more) == (RANGES_MAX, True)
    assert list(conclusions(Answer.of(ledger_read(survey.ledger()).answered())))[1].endswith("more")
