"""The work of all messages of one request: bounded, and honest batches stay far below it."""

import json
import time

import orjson
import pytest

from app.domain.errors import ThroughputQuotaError
from app.schemas.avro import AvroCodec
from app.schemas.json_schema import JsonSchema
from app.schemas.problems import MismatchError
from app.schemas.request_work import BYTE_LIMIT_NS, LIMIT_NS, RequestWork
from tests.unit.schemas.test_json_schema_work import COMPILED, ORDER, order, plain_s

# A plain message costs about 20 µs: this is about a second, and a thousand without a bound are ten.
RATIO_MAX = 50_000
MESSAGES = 1_000


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
    work = RequestWork(MESSAGES * len(body))
    began = time.process_time()
    results = [taken(schema, body, work) for _ in range(MESSAGES)]
    assert (time.process_time() - began) / plain_s() < RATIO_MAX
    assert results == sorted(results, reverse=True)
    assert 20 < sum(results) < MESSAGES


def test_a_batch_of_usual_messages_is_taken_whole() -> None:
    body = order(1_000)
    work = RequestWork(MESSAGES * len(body))
    assert all(taken(COMPILED["order"], body, work) for _ in range(MESSAGES))


def test_what_is_wrong_with_each_of_many_messages_is_told_while_there_is_work_left() -> None:
    body = orjson.dumps({"id": 1, "email": "a", "items": []})
    work = RequestWork(MESSAGES * len(body))
    told = [COMPILED["order"].problems(orjson.loads(body), body, work) for _ in range(MESSAGES)]
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
    codec.binary(value, wrapped=False, said={}, size=4_000, work=work)
    once = LIMIT_NS - work.left_ns
    assert 0 < once < LIMIT_NS / 10
    work.left_ns = once / 2
    with pytest.raises(ThroughputQuotaError, match="another batch"):
        codec.binary(value, wrapped=False, said={}, size=4_000, work=work)
    assert work.left_ns == 0
    with pytest.raises(MismatchError):
        codec.binary({"n": ["x"]}, wrapped=False, said={}, size=4_000, work=RequestWork(0))


def test_a_large_request_may_take_more() -> None:
    assert RequestWork(1_000).left_ns == LIMIT_NS + 1_000 * BYTE_LIMIT_NS
