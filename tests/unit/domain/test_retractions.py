"""Which discards are retracted, and how the undelivered stream says so."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.domain.commit import FINISHED_BYTES_MAX, Progress, parse_progress
from app.domain.discards.retractions import (
    HEADER_RETRACTION,
    Retraction,
    entry_of,
    retraction_of,
    retraction_record,
)
from app.domain.discards.undelivered import Undelivered, from_record, to_record
from app.domain.message import NewRecord, Record

COMMITTED = Progress(
    subscription_id="s1", offset=10, finished=((12, 14), (20, 21)), producer_epoch="ab12"
)
RETRACTION = retraction_of(COMMITTED, 3, start=10)


def a_discard(offset: int, **values: object) -> Undelivered:
    discard = Undelivered(
        subscription_id="s1",
        topic="shop.orders",
        subscription="s",
        message_id=f"m{offset}",
        discarded_at=datetime(2026, 1, 1, tzinfo=UTC),
        reason="no",
        status=400,
        attempts=1,
        partition=3,
        offset=offset,
        body=b"x",
        producer_epoch="ab12",
    )
    return replace(discard, **values)  # type: ignore[arg-type]  # fields of the value


def stored(new: NewRecord) -> Record:
    return Record(0, 0, new.key, new.value, list(new.headers))


def test_what_is_not_committed_is_retracted() -> None:
    retraction = [n for n in range(24) if RETRACTION.covers(a_discard(n))]
    assert retraction == [10, 11, 14, 15, 16, 17, 18, 19, 21, 22, 23]


@pytest.mark.parametrize(
    "other",
    [
        {"subscription_id": "s2"},
        {"partition": 2},
        {"producer_epoch": "cd34"},
        {"producer_epoch": ""},
    ],
)
def test_what_others_recorded_is_not_retracted(other: dict[str, object]) -> None:
    assert not RETRACTION.covers(a_discard(10, **other))


@pytest.mark.parametrize(
    ("start", "retraction"), [(5, [10, 11, 14]), (11, [11, 14]), (13, [14]), (15, []), (30, [])]
)
def test_nothing_is_retracted_that_is_not_sent_again(start: int, retraction: list[int]) -> None:
    asked = retraction_of(COMMITTED, 3, start=start)
    assert [n for n in range(15) if asked.covers(a_discard(n))] == retraction


@pytest.mark.parametrize("start", [0, 11, 13, 14, 20, 25])
def test_a_retraction_comes_back_from_the_stream_as_it_was(start: int) -> None:
    retraction = retraction_of(COMMITTED, 3, start=start)
    assert entry_of(stored(retraction_record(retraction))) == retraction


def test_a_retraction_of_as_much_as_a_commit_can_say_comes_back() -> None:
    finished = tuple((n, n + 1) for n in range(1, FINISHED_BYTES_MAX, 2))
    retraction = retraction_of(replace(COMMITTED, offset=0, finished=finished), 0, start=0)
    assert entry_of(stored(retraction_record(retraction))) == retraction


def test_a_retraction_follows_its_discards_in_the_stream() -> None:
    assert retraction_record(RETRACTION).key == to_record(a_discard(10)).key


def test_a_version_without_retractions_passes_over_them() -> None:
    assert from_record(stored(retraction_record(RETRACTION))) is None


def test_a_discard_comes_back_with_its_producer_epoch() -> None:
    assert entry_of(stored(to_record(a_discard(10)))) == a_discard(10)


@pytest.mark.parametrize("described", [b"", b"{}", b"[]", b'{"finished": "%"}', b"1"])
def test_what_is_no_retraction_of_ours_is_nothing(described: bytes) -> None:
    assert entry_of(Record(0, 0, None, b"", [(HEADER_RETRACTION, described)])) is None


def test_a_commit_says_whose_discards_may_be_recorded() -> None:
    assert parse_progress("s1", 10, COMMITTED.metadata()) == COMMITTED
    assert parse_progress("s1", 10, replace(COMMITTED, producer_epoch="").metadata()) == replace(
        COMMITTED, producer_epoch=""
    )


def test_retraction_covers_by_offset() -> None:
    whole = Retraction(subscription_id="s1", partition=0, producer_epoch="a", offset=2)
    assert [whole.covers_offset(n) for n in range(4)] == [False, False, True, True]
