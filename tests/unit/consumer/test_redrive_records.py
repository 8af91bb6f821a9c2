"""What a message that is sent again is in the log, and what is read there."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.discards.redrive import redrive_record
from app.domain.discards.undelivered import Undelivered, from_record, to_record
from app.domain.message import Message, Partition, Record
from app.domain.targeted import RecordTarget, target_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TO = RecordTarget("a" * 32, "b" * 32)
NOW_MS = 1_769_900_000_000


def an_undelivered(**settings: object) -> Undelivered:
    values: dict[str, object] = {
        "subscription_id": TO.subscription_id,
        "topic": "shop.orders",
        "subscription": "billing",
        "message_id": "m-1",
        "discarded_at": NOON,
        "reason": "no",
        "status": 400,
        "last_failure": "cut",
        "answer": "no such \u00f6rder",
        "attempts": 1,
        "partition": 1,
        "offset": 7,
        "body": b"\x00\xff",
        "headers": (("Content-Type", "text/xml"), ("X-Trace", "1"), ("X-Trace", "\xe9")),
        "key": b"k\xff",
    }
    return Undelivered(**{**values, **settings})  # type: ignore[arg-type]  # fields of the value


def read_back(undelivered: Undelivered) -> Message:
    new = redrive_record(undelivered, TO, now_ms=NOW_MS)
    assert new.timestamp_ms is not None
    record = Record(9, new.timestamp_ms, new.key, new.value, list(new.headers))
    return Message(record, Partition("shop.orders", 1))


def test_it_is_the_message_as_it_was_published_but_addressed_and_of_now() -> None:
    message = read_back(an_undelivered())
    assert (message.id, message.key, message.body) == (b"m-1", b"k\xff", b"\x00\xff")
    assert message.content_type == b"text/xml"
    assert message.propagated == [(b"X-Trace", b"1"), (b"X-Trace", b"\xe9")]
    assert message.published_ms == NOW_MS
    assert message.record_target == TO


def test_a_propagated_content_type_is_not_taken_for_its_own() -> None:
    twice = (("Content-Type", "a/b"), ("content-type", "c/d"))
    message = read_back(an_undelivered(headers=twice))
    assert (message.content_type, message.propagated) == (b"a/b", [(b"content-type", b"c/d")])


@pytest.mark.parametrize(
    "header",
    [b"", b"x", b"a" * 32, b"a" * 32 + b" " + b"B" * 32, b" ".join([b"a" * 32] * 3), b"\xff" * 65],
)
def test_a_header_that_is_not_ours_addresses_nobody(header: bytes) -> None:
    assert target_of(header) is None
    message = Message(Record(0, 0, None, b"", [(b"r", header)]), Partition("g.t", 0))
    assert message.record_target is None


def test_a_message_of_a_publisher_is_for_everybody() -> None:
    assert (
        Message(Record(0, 0, None, b"", [(b"id", b"1")]), Partition("g.t", 0)).record_target is None
    )


@pytest.mark.parametrize("key", [None, b"", b"k\xff"])
def test_the_stream_of_undelivered_messages_keeps_the_key(key: bytes | None) -> None:
    discard = an_undelivered(key=key)
    new = to_record(discard)
    assert from_record(Record(0, 0, new.key, new.value, list(new.headers))) == discard


def test_the_stream_of_undelivered_messages_keeps_what_they_were_sent_again_by() -> None:
    discard = an_undelivered(retransmission=TO.job_id)
    new = to_record(discard)
    assert from_record(Record(0, 0, new.key, new.value, list(new.headers))) == discard


@pytest.mark.parametrize(
    ("field", "absent"),
    [
        (b', "retransmission": ""', {"retransmission": ""}),
        (b', "key": "a/8="', {"key": None}),
        (b', "lastFailure": "cut"', {"last_failure": ""}),
        (b', "answer": "no such \\u00f6rder"', {"answer": ""}),
    ],
)
def test_a_record_of_a_version_that_did_not_know_a_field_has_none(
    field: bytes, absent: dict[str, Any]
) -> None:
    new = to_record(an_undelivered())
    [(name, described)] = new.headers
    older = described.replace(field, b"")
    assert older != described
    found = from_record(Record(0, 0, new.key, new.value, [(name, older)]))
    assert found == an_undelivered(**absent)
