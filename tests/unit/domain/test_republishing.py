"""What is asked of a republishing task, and how its records are known again."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.job import WINDOW_MAX
from app.domain.message import NewRecord, Record
from app.domain.replay.republishing import (
    HEADER_REPUBLISHED,
    RepublishRequest,
    marker_of,
    offset_marked,
    republished,
    require_alike,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TASK, OTHER = "a" * 32, "b" * 32
AVRO = Topic(
    name="shop.avro",
    content_type=ContentType.AVRO,
    schemas=(TopicSchema(version=1, id=1, text='"string"'),),
)


def asked(length: timedelta) -> RepublishRequest:
    return RepublishRequest(source="a.b", target="a.c", since=NOON, until=NOON + length)


def as_read(new: NewRecord) -> Record:
    return Record(0, 0, new.key, new.value, list(new.headers))


@pytest.mark.parametrize("length", [timedelta(0), WINDOW_MAX + timedelta(milliseconds=1)])
def test_a_time_that_is_empty_or_too_long_is_refused_by_its_field(length: timedelta) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        asked(length)
    assert [each.path for each in refused.value.details] == ["startTimestamp"]


def test_the_longest_time_is_taken_in_milliseconds() -> None:
    times = asked(WINDOW_MAX).times
    assert times.since_ms == 1_767_268_800_000
    assert times.until_ms == 1_767_268_800_000 + WINDOW_MAX // timedelta(milliseconds=1)


def test_a_topic_of_another_content_type_is_refused_by_its_field() -> None:
    plain = Topic(name="shop.plain")
    require_alike(plain, Topic(name="shop.other"))
    for source, target in ((plain, AVRO), (AVRO, plain)):
        with pytest.raises(ValidationFailedError) as refused:
            require_alike(source, target)
        assert [each.path for each in refused.value.details] == ["targetTopic"]


def test_a_record_keeps_what_it_carries_and_is_published_now_for_everybody() -> None:
    was = [
        (b"id", b"m"),
        (b"ts", b"1"),
        (b"ct", b"a/b"),
        (b"w", b"w"),
        (b"r", b"x"),
        (b"h-A", b"1"),
    ]
    found = republished(
        Record(7, 1, b"k", b"old", was), b"new", [(b"id", b"m"), (b"rp", b"x")], now_ms=9
    )
    assert (found.key, found.value, found.timestamp_ms) == (b"k", b"new", 9)
    assert sorted(found.headers) == [
        (b"ct", b"a/b"), (b"h-A", b"1"), (b"id", b"m"), (b"rp", b"x"), (b"ts", b"9"),
    ]  # fmt: skip


def test_a_record_is_known_by_its_task_and_its_place_in_the_source() -> None:
    marked = [(HEADER_REPUBLISHED, marker_of(TASK, 3, 2**63 - 1))]
    record = as_read(republished(Record(0, 0, None, b"", []), b"", marked, now_ms=1))
    assert offset_marked(record, TASK, 3) == 2**63 - 1
    assert offset_marked(record, TASK, 2) is None
    assert offset_marked(record, OTHER, 3) is None


@pytest.mark.parametrize("header", [b"", b"a", TASK.encode(), TASK.encode() + b" 3/", b"\xff 3/1"])
def test_what_somebody_else_has_written_there_is_no_place(header: bytes) -> None:
    record = Record(0, 0, None, b"", [(HEADER_REPUBLISHED, header)])
    assert offset_marked(record, TASK, 3) is None
    assert offset_marked(Record(0, 0, None, b"", []), TASK, 3) is None
