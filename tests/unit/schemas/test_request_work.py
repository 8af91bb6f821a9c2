"""The work of all messages of one request: bounded, and honest batches stay far below it."""

import json
import time

import orjson
import pytest

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import MessageTooLargeError, ThroughputQuotaError
from app.schemas.avro import AvroCodec
from app.schemas.json_schema import JsonSchema
from app.schemas.problems import MismatchError
from app.schemas.publications import AVRO_BINARY, Given, typed
from app.schemas.request_work import BYTE_LIMIT_NS, LIMIT_NS, RequestWork
from tests.unit.schemas.test_json_schema_work import ORDER, compiled, order, plain_s
from tests.work import SHARE_MAX, least_share

# A plain message costs about 20 µs: this is about a second, and a thousand without a bound are ten.
RATIO_MAX = 50_000
MESSAGES = 1_000
# Small in JSON, large as Avro, and larger when it is read again.
ROW = {"type": "record", "name": "Row", "fields": [
    {"name": f"f{n}", "type": ["null", "string"], "default": None} for n in range(200)
]}  # fmt: skip
# What could take much to be read: of such a schema only the smallest messages are certain.
RARE = {"type": "record", "name": "Rare", "fields": [
    {"name": f"n{n}", "type": "null", "default": None} for n in range(500)
]}  # fmt: skip
SPARSE = json.dumps({"type": "array", "items": [ROW, RARE]})


def taken(schema: JsonSchema, body: bytes, work: RequestWork) -> bool:
    """Whether there is work left for one more message."""
    try:
        schema.problems(orjson.loads(body), body, work)
    except ThroughputQuotaError:
        return False
    return True


def test_a_batch_of_costly_messages_takes_no_longer_than_one_request_may() -> None:
    schema = JsonSchema(json.dumps({"items": {"anyOf": [{"type": "string"}] * 2_000 + [{}]}}))
    body = orjson.dumps(list(range(150)))

    def took_s() -> float:
        work = RequestWork(MESSAGES * len(body))
        began = time.process_time()
        results = [taken(schema, body, work) for _ in range(MESSAGES)]
        ended = time.process_time()
        assert results == sorted(results, reverse=True)
        assert 20 < sum(results) < MESSAGES
        return ended - began

    assert least_share(took_s, plain_s, RATIO_MAX) <= SHARE_MAX


def test_a_batch_of_usual_messages_is_taken_whole() -> None:
    body = order(1_000)
    work = RequestWork(MESSAGES * len(body))
    assert all(taken(compiled("order"), body, work) for _ in range(MESSAGES))


def test_what_is_wrong_with_each_of_many_messages_is_told_while_there_is_work_left() -> None:
    body = orjson.dumps({"id": 1, "email": "a", "items": []})
    work = RequestWork(MESSAGES * len(body))
    told = [compiled("order").problems(orjson.loads(body), body, work) for _ in range(MESSAGES)]
    assert len(told[0]) == 2
    assert all(told)


def test_a_small_message_still_fits_where_a_costly_one_does_not() -> None:
    schema, work = JsonSchema(json.dumps(ORDER)), RequestWork(0)
    work.left_ns = 100_000
    assert not taken(schema, order(100_000), work)
    assert taken(schema, b"{}", work)


def test_messages_that_are_written_as_avro_share_the_work_of_their_request() -> None:
    numbers = {"type": "array", "items": "long"}
    codec = AvroCodec(json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "n", "type": numbers}
    ]}))  # fmt: skip
    value = {"n": list(range(1_000))}
    work = RequestWork(0)
    codec.binary(value, wrapped=False, metadata={}, size=4_000, work=work)
    once = LIMIT_NS - work.left_ns
    assert 0 < once < LIMIT_NS / 10
    work.left_ns = once / 2
    with pytest.raises(ThroughputQuotaError, match="another batch"):
        codec.binary(value, wrapped=False, metadata={}, size=4_000, work=work)
    assert work.left_ns == 0
    with pytest.raises(MismatchError):
        codec.binary({"n": ["x"]}, wrapped=False, metadata={}, size=4_000, work=RequestWork(0))


def test_a_large_request_may_take_more() -> None:
    assert RequestWork(1_000).left_ns == LIMIT_NS + 1_000 * BYTE_LIMIT_NS


def test_what_is_too_large_as_avro_is_not_read_again() -> None:
    codec, value = AvroCodec(SPARSE), [{"f3": "abcd"}] * 1_000
    work = RequestWork(0)
    with pytest.raises(MessageTooLargeError, match="larger than the limit of 50000 bytes"):
        codec.binary(value, wrapped=False, metadata={}, size=15_000, size_max=50_000, work=work)
    written = LIMIT_NS - work.left_ns
    codec.binary(value, wrapped=False, metadata={}, size=15_000, work=work)
    assert LIMIT_NS - work.left_ns > 4 * written


def test_messages_that_are_read_again_share_the_work_of_their_request() -> None:
    codec, value, work = AvroCodec(SPARSE), [{"f3": "abcd"}] * 500, RequestWork(0)
    work.left_ns /= 5

    def is_taken() -> bool:
        try:
            codec.binary(value, wrapped=False, metadata={}, size=7_500, work=work)
        except ThroughputQuotaError:
            return False
        return True

    results = [is_taken() for _ in range(10)]
    assert results == sorted(results, reverse=True)
    assert 2 < sum(results) < 8
    assert work.is_spent


def test_messages_that_come_as_avro_share_the_work_of_their_request() -> None:
    schema = TopicSchema(version=1, id=1, text=json.dumps({"type": "array", "items": "long"}))
    topic = Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=(schema,))
    work, avro = RequestWork(0), b"\xd0\x0f" + b"\x02" * 1_000 + b"\x00"
    given = Given(body=avro, media=AVRO_BINARY, message_id=b"m-1", now_ms=1, work=work)
    assert typed(topic, given).body == avro
    once = LIMIT_NS - work.left_ns
    assert 0 < once < LIMIT_NS / 100
    work.left_ns = once / 2
    with pytest.raises(ThroughputQuotaError, match="another batch"):
        typed(topic, given)


def test_messages_that_are_refused_as_too_much_share_the_work_of_their_request() -> None:
    schema = JsonSchema(json.dumps({"items": {"anyOf": [{"type": "string"}] * 2_000 + [{}]}}))
    body, work = orjson.dumps(list(range(5_000))), RequestWork(0)
    told = [schema.problems(orjson.loads(body), body, work) for _ in range(5)]
    assert all("takes more work" in problem.message for (problem,) in told)
    assert work.left_ns < LIMIT_NS * 0.9
