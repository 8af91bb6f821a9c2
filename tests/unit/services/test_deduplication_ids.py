import pytest

from app.domain.catalogue.topic import Deduplication, Topic
from app.domain.errors import ValidationFailedError
from app.domain.message import NewRecord
from app.services.publishing.deduplication_ids import published_id, published_ids

PLAIN = Topic(name="shop.orders", deduplication=Deduplication())


def by(expression: str) -> Topic:
    return Topic(name="shop.orders", deduplication=Deduplication(expression=expression))


def a_record(body: bytes) -> NewRecord:
    return NewRecord(value=body, key=b"k", headers=((b"id", b"m"),), timestamp_ms=5)


def test_without_an_expression_it_is_the_publishers_own_id() -> None:
    record = a_record(b"{}")
    assert published_id(PLAIN, record, b"own") == "own"
    assert published_id(PLAIN, record, None) is None
    assert published_id(Topic(name="shop.orders"), record, b"own") is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1},"b":1}', True),
        (b'{"a":1}', b'{"a":"1"}', False),
        (b'{"a":1}', b'{"a":1.0}', False),
        (b'{"a":true}', b'{"a":1}', False),
        (b'{"a":""}', b'{"a":[]}', False),
        ('{"a":"ż"}'.encode(), b'{"a":"\\u017c"}', True),
    ],
)
def test_values_are_the_same_if_they_are_the_same_json(
    one: bytes, other: bytes, *, same: bool
) -> None:
    topic = by("body.a")
    ids = {published_id(topic, a_record(body), None) for body in (one, other)}
    assert len(ids) == (1 if same else 2)


def test_an_id_is_of_one_length_however_long_the_value_is() -> None:
    assert len(published_id(by("text"), a_record(b"x" * 50_000), None) or "") == 64


def test_what_the_message_has_besides_its_body_counts_too() -> None:
    assert published_id(by("[key, id, topic, timestamp]"), a_record(b"?"), None) == published_id(
        by("[key, id, topic, timestamp]"), a_record(b"!"), b"own"
    )


@pytest.mark.parametrize(
    "expression", ["body.none", "0.0 / 0.0", "b'x'", "double('inf')", "double(body.a)", "body"]
)
def test_what_has_no_value_or_none_that_is_json_is_refused(expression: str) -> None:
    body = b'{"a":"nan","b":[' + b"0," * 6_000 + b"0]}"
    with pytest.raises(ValidationFailedError) as refused:
        published_id(by(expression), a_record(body), None)
    assert [each.path for each in refused.value.details] == ["deduplication.expression"]


async def test_of_many_each_has_its_id_or_its_error() -> None:
    bodies = [b'{"a":1}', b"{}", b'{"a":null}', b'{"a":1,"filler":"' + b"x" * 50_000 + b'"}']
    ids = await published_ids(by("body.a"), [a_record(body) for body in bodies], [None] * 4)
    assert isinstance(ids[1], ValidationFailedError)
    assert ids[2] is None
    assert ids[0] == ids[3] is not None


def test_a_message_that_takes_too_much_work_to_look_at_is_refused() -> None:
    heavy = a_record(b'{"a":[' + b"[]," * 100_000 + b"0]}")
    with pytest.raises(ValidationFailedError, match="steps of work to look at"):
        published_id(by("body.a"), heavy, None)
