"""The bodies of batches."""

import json
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.catalogue.batching import BatchFormat, Batching
from app.domain.catalogue.subscription import Subscription
from app.domain.message import Message, Partition, Record
from workers.delivery.batch import FRAMINGS, MessageBatch, UnfitError, framing_of
from workers.delivery.events import event_of
from workers.delivery.request import RequestHeaders

PARTITION = Partition("shop.orders", 0)


def a_message(body: bytes | None, *headers: tuple[bytes, bytes], offset: int = 0) -> Message:
    return Message(Record(offset, 5, None, body, list(headers)), PARTITION)


def body_of(format_: BatchFormat, *bodies: bytes) -> bytes:
    framing = FRAMINGS[format_]
    return framing.body([framing.piece(a_message(body)) for body in bodies])


def values_in(format_: BatchFormat, body: bytes) -> list[Any]:
    match format_:
        case BatchFormat.NDJSON:
            return [json.loads(line) for line in body.splitlines()]
        case BatchFormat.WRAPPED:
            return [each["message"] for each in json.loads(body)]
        case BatchFormat.PLAIN:
            return list(json.loads(body))


def test_the_body_is_what_hermes_sends() -> None:
    framing = FRAMINGS[BatchFormat.WRAPPED]
    message = a_message(b'{"a":1}', (b"id", b"m-1"), (b"h-X-Trace", "é".encode()))
    assert orjson.loads(framing.body([framing.piece(message)])) == [
        {
            "_w": True,
            "metadata": {"timestamp": 5, "id": "m-1", "externalMetadata": {"X-Trace": "é"}},
            "message": {"a": 1},
        }
    ]


def test_a_header_that_comes_several_times_has_all_its_values() -> None:
    sent = [(b"h-X-Tag", b"a"), (b"h-Y", b"1"), (b"h-x-tag", b""), (b"h-X-Tag", b"b, c")]
    piece = FRAMINGS[BatchFormat.WRAPPED].piece(a_message(b"1", *sent))
    assert orjson.loads(piece)["metadata"]["externalMetadata"] == {"X-Tag": "a, , b, c", "Y": "1"}


def test_json_goes_in_byte_by_byte() -> None:
    odd = b'{ "n": 1.10, "big": 123456789012345678901234567890 }'
    assert body_of(BatchFormat.PLAIN, odd, b"2") == b"[" + odd + b",2]"
    assert body_of(BatchFormat.NDJSON, odd, b"2") == odd + b"\n2\n"


def test_line_ends_within_json_become_spaces_in_json_lines() -> None:
    body = body_of(BatchFormat.NDJSON, b'{\r\n "a":\n "x\\n"}', b"[]\n")
    assert body == b'{   "a":  "x\\n"}\n[] \n'


@pytest.mark.parametrize("format_", list(BatchFormat))
@pytest.mark.parametrize(
    "text", ["", "plain text", 'a "quote"\nand a line', "{not json", "NaN", '"\\ud800"', "[1e999]"]
)
def test_what_is_no_json_goes_in_as_a_string(format_: BatchFormat, text: str) -> None:
    body = body_of(format_, b"1", text.encode(), b"2")
    assert values_in(format_, body) == [1, text, 2]


@pytest.mark.parametrize("format_", list(BatchFormat))
@pytest.mark.parametrize("body", [None, b"\xff\xfe"])
def test_what_has_no_place_in_json_is_refused(format_: BatchFormat, body: bytes | None) -> None:
    with pytest.raises(UnfitError):
        FRAMINGS[format_].piece(a_message(body))


def test_a_batch_of_events_has_each_as_it_would_be_sent_by_itself() -> None:
    hour = timedelta(hours=1)
    batching = Batching(size=2, volume=1, time=hour, format=BatchFormat.NDJSON, events=True)
    framing = framing_of(batching)
    messages = [a_message(b"{ }", (b"id", b"m-1")), a_message(b"\xff", (b"ct", b"a/b"))]
    body = framing.body([framing.piece(each) for each in messages])
    assert framing.content_type == b"application/cloudevents-batch+json"
    assert body == b"[%b]" % b",".join(event_of(each) for each in messages)
    assert [event["id"] for event in orjson.loads(body)] == ["m-1", "shop.orders/0/0"]
    with pytest.raises(UnfitError):
        framing.piece(a_message(None))


@settings(max_examples=40, deadline=None)
@given(
    format_=st.sampled_from(BatchFormat),
    bodies=st.lists(st.one_of(st.binary(max_size=8), st.text(max_size=8)), max_size=4),
)
def test_no_body_makes_a_batch_that_cannot_be_read(
    format_: BatchFormat, bodies: list[bytes | str]
) -> None:
    framing, pieces = FRAMINGS[format_], []
    for body in bodies:
        try:
            raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
            pieces.append(framing.piece(a_message(raw, (b"id", raw), (b"h-X", raw))))
        except UnfitError:
            continue
    body_ = framing.body(pieces) if pieces else b""
    assert len(values_in(format_, body_) if pieces else []) == len(pieces)


def test_its_request_names_the_batch_and_no_message() -> None:
    subscription = Subscription(
        id="s",
        topic="shop.orders",
        name="s",
        endpoint="http://h/",
        delivery_type="BATCH",  # type: ignore[arg-type]  # as good as the enum
    )
    messages = [a_message(b"1", (b"h-X", b"a"), offset=offset) for offset in range(2)]
    batch = MessageBatch(
        messages, b"[1,1]", content_type=b"application/x-ndjson", subscription_id="s"
    )
    assert RequestHeaders(subscription, host=b"h").of(batch, 3) == [
        (b"Content-Type", b"application/x-ndjson"),
        (b"Hermes-Batch-Id", batch.id),
        (b"Hermes-Retry-Count", b"3"),
        (b"Idempotency-Key", batch.id),
    ]
