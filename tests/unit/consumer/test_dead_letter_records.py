"""What a discarded message looks like in its dead-letter topic."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.catalogue.dead_letter import ROUTE_MAX, DeadLetter, dead_letter_record
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import ValidationFailedError
from app.domain.message import Message, NewRecord, Partition, Record

NOW_MS = 1_767_268_800_123
DISCARDED = Undelivered(
    subscription_id="s-1",
    topic="shop.orders",
    subscription="billing",
    message_id="m-1",
    discarded_at=datetime(2026, 1, 1, 12, 0, 0, 5_000, tzinfo=UTC),
    reason="Message sending failed with status code:400",
    status=400,
    attempts=3,
    partition=2,
    offset=7,
    body=b"",
)


def a_message(*headers: tuple[bytes, bytes], body: bytes | None = b"\xff{") -> Message:
    told = [(b"id", b"m-1"), (b"ts", b"1"), (b"ct", b"text/plain"), *headers]
    return Message(Record(7, 1_000, b"key", body, told), Partition("shop.orders", 2))


def letter_of(message: Message, discarded: Undelivered = DISCARDED) -> NewRecord | None:
    return dead_letter_record(message, discarded, now_ms=NOW_MS)


def read(letter: NewRecord | None) -> Message:
    """As the dead-letter topic's subscribers get it."""
    assert letter is not None
    record = Record(0, NOW_MS, letter.key, letter.value, list(letter.headers))
    return Message(record, Partition("shop.dead", 0))


def told(message: Message) -> dict[bytes, bytes]:
    return dict(message.propagated)


def test_is_the_message_as_it_was_and_says_why_it_was_discarded() -> None:
    letter = read(letter_of(a_message((b"h-X-Tenant", b"acme"))))
    assert (letter.body, letter.key, letter.content_type) == (b"\xff{", b"key", b"text/plain")
    assert told(letter) == {
        b"X-Tenant": b"acme",
        b"Angelia-Dead-Letter-Reason": b"Message sending failed with status code:400",
        b"Angelia-Dead-Letter-Status": b"400",
        b"Angelia-Dead-Letter-Attempts": b"3",
        b"Angelia-Dead-Letter-Topic": b"shop.orders",
        b"Angelia-Dead-Letter-Subscription": b"billing",
        b"Angelia-Dead-Letter-Message-Id": b"m-1",
        b"Angelia-Dead-Letter-Partition": b"2",
        b"Angelia-Dead-Letter-Offset": b"7",
        b"Angelia-Dead-Letter-Published": b"1970-01-01T00:00:01.000Z",
        b"Angelia-Dead-Letter-Time": b"2026-01-01T12:00:00.005Z",
        b"Angelia-Dead-Letter-Route": b"shop.orders/billing",
    }


def test_is_published_now_under_an_id_of_its_own_that_a_repeat_has_too() -> None:
    letter = letter_of(a_message())
    assert letter is not None
    # The log sets the time of the record when it stores the record.
    assert (letter.timestamp_ms, dict(letter.headers)[b"ts"]) == (None, b"%d" % NOW_MS)
    again = replace(DISCARDED, discarded_at=datetime(2026, 1, 2, tzinfo=UTC), attempts=4)
    assert read(letter_of(a_message(), again)).id == read(letter).id != b"m-1"
    others = [
        replace(DISCARDED, subscription_id="s-2"),
        replace(DISCARDED, offset=8),
        replace(DISCARDED, partition=3),
    ]
    assert len({read(letter_of(a_message(), each)).id for each in [DISCARDED, *others]}) == 4


def test_a_discard_without_an_answer_has_no_status_and_a_message_without_a_body_an_empty_one() -> (
    None
):
    letter = read(letter_of(a_message(body=None), replace(DISCARDED, status=None)))
    assert b"Angelia-Dead-Letter-Status" not in told(letter)
    assert letter.body == b""


def test_tells_of_the_last_discard_and_of_the_whole_route() -> None:
    first = read(letter_of(a_message((b"h-X-Tenant", b"acme"))))
    again = replace(DISCARDED, topic="shop.dead", subscription="mail", reason="gone", offset=0)
    second = read(letter_of(first, again))
    assert len(second.propagated) == len(told(second))
    assert told(second)[b"Angelia-Dead-Letter-Reason"] == b"gone"
    assert told(second)[b"Angelia-Dead-Letter-Route"] == b"shop.orders/billing, shop.dead/mail"
    assert told(second)[b"X-Tenant"] == b"acme"


def test_a_message_that_came_from_the_same_subscription_is_none_again() -> None:
    first = read(letter_of(a_message()))
    second = read(letter_of(first, replace(DISCARDED, topic="shop.dead", subscription="mail")))
    assert letter_of(second, DISCARDED) is None
    assert letter_of(second, replace(DISCARDED, subscription="mail")) is not None


def test_a_route_ends_however_many_subscriptions_it_goes_through() -> None:
    message = a_message()
    for number in range(ROUTE_MAX):
        message = read(letter_of(message, replace(DISCARDED, subscription=f"s{number}")))
    assert letter_of(message) is None


@given(st.text(), st.text(), st.integers(-(2**62), 2**62))
def test_whatever_is_quoted_fits_into_headers(reason: str, message_id: str, time_ms: int) -> None:
    message = Message(Record(0, time_ms, None, b"", []), Partition("a.b", 0))
    letter = letter_of(message, replace(DISCARDED, reason=reason, message_id=message_id))
    for value in told(read(letter)).values():
        assert len(value) <= 1_000
        assert value.decode("ascii").isprintable()


@pytest.mark.parametrize("topic", ["", "dead", "a b.c", "a." + "b" * 100])
def test_what_names_no_topic_is_refused_with_its_field(topic: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        DeadLetter(topic=topic)
    assert [problem.path for problem in refused.value.details] == ["deadLetter.topic"]
