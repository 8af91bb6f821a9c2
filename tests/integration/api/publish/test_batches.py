from collections.abc import Sequence

import httpx
import orjson
import pytest

from app.api.publish.batch import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord
from app.log.interface import Position
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.slow_answers import answer_of

NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "application/cloudevents-batch+json"}


class FussyLog(MemoryLog):
    """Does not acknowledge calls with a record that contains `unwanted`."""

    unwanted = b"unwanted"

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if any(self.unwanted in record.value for record in records):
            raise LogUnavailableError("not acknowledged")
        return await super().append(topic, records, ack=ack)


@pytest.fixture
def log() -> MemoryLog:
    return FussyLog()


def stored(log: MemoryLog, topic: str) -> dict[bytes, bytes]:
    """The stored bodies by message id."""
    return {record.header(b"id") or b"": record.value or b"" for record in log.records(topic)}


async def test_stores_each_element_of_an_array_as_it_stands_there(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    body = b'[ {"a" : 1.0},\n"x", null ]'
    answer = await api.post(f"/topics/{topic}/batch", content=body, headers=JSON)
    results = answer.json()
    assert (answer.status_code, [each["status"] for each in results]) == (201, [201] * 3)
    assert [stored(log, topic)[each["id"].encode()] for each in results] == [
        b'{"a" : 1.0}',
        b'"x"',
        b"null",
    ]
    assert {record.header(b"ct") for record in log.records(topic)} == {b"application/json"}


async def test_stores_lines_with_the_key_and_the_trace_of_the_request(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    headers = {**NDJSON, "Partition-Key": "k", "traceparent": "00-0a-0b-01"}
    answer = await api.post(f"/topics/{topic}/batch", content=b"1\n2\n3\n", headers=headers)
    assert answer.status_code == 201
    assert [record.value for record in log.records(topic)] == [b"1", b"2", b"3"]
    assert {record.key for record in log.records(topic)} == {b"k"}
    assert {record.header(b"h-traceparent") for record in log.records(topic)} == {b"00-0a-0b-01"}


async def test_gives_each_message_the_id_and_key_of_its_envelope(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    body = [{"id": "m1", "key": "a", "message": {"n": 1}}, {"message": 2}]
    headers = {"Partition-Key": "b"}
    answer = await api.post(f"/topics/{topic}/batch?envelope=true", json=body, headers=headers)
    first, second = answer.json()
    assert first == {"id": "m1", "status": 201}
    by_id = {record.header(b"id"): record for record in log.records(topic)}
    assert (by_id[b"m1"].key, by_id[b"m1"].value) == (b"a", b'{"n":1}')
    assert (by_id[second["id"].encode()].key, by_id[second["id"].encode()].value) == (b"b", b"2")


async def test_an_event_of_a_batch_gives_its_id_to_its_message(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    event = {"specversion": "1.0", "id": "e-1", "source": "/s", "type": "t", "data": {"a": 1}}
    answer = await api.post(
        f"/topics/{topic}/batch", content=orjson.dumps([event, {"id": "no event"}]), headers=EVENTS
    )
    taken, refused = answer.json()
    assert (answer.status_code, taken) == (207, {"id": "e-1", "status": 201})
    assert (refused["status"], refused["code"]) == (400, "VALIDATION_ERROR")
    (record,) = log.records(topic)
    assert (record.value, record.header(b"ct")) == (
        orjson.dumps(event),
        b"application/cloudevents+json",
    )


async def test_refuses_only_the_messages_that_are_wrong_and_says_which(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    lines = [b"1", b"{", b'"' + b"x" * 2047 + b'"', b'"' + b"x" * 2046 + b'"']
    answer = await api.post(f"/topics/{topic}/batch", content=b"\n".join(lines), headers=NDJSON)
    results = answer.json()
    assert answer.status_code == 207
    assert [(each["status"], each.get("code")) for each in results] == [
        (201, None),
        (400, "VALIDATION_ERROR"),
        (413, "VALIDATION_ERROR"),
        (201, None),
    ]
    assert "2048" in results[2]["message"]
    assert list(stored(log, topic)) == [results[0]["id"].encode(), results[3]["id"].encode()]


async def test_says_exactly_which_messages_the_log_did_not_acknowledge(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    keys = ["a", "b", "c", "d"] * 50
    body = [{"key": key, "message": "unwanted" if n == 101 else n} for n, key in enumerate(keys)]
    answer = await api.post(f"/topics/{topic}/batch?envelope=true", json=body)
    statuses = [each["status"] for each in answer.json()]
    assert answer.status_code == 207
    assert statuses == [503 if key == "b" else 201 for key in keys]
    acknowledged = {each["id"].encode() for each in answer.json() if each["status"] == 201}
    assert set(stored(log, topic)) == acknowledged


async def test_answers_503_with_retry_after_when_nothing_could_be_stored(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.go_down()
    answer = await api.post(f"/topics/{topic}/batch", json=[1, 2])
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["code"] == "SENDING_TO_KAFKA_TIMEOUT"
    assert [each["status"] for each in answer.json()["results"]] == [503] * 2


@pytest.mark.parametrize(
    ("lines", "status"), [([b"{", b"["], 400), ([b'"' + b"x" * 2047 + b'"'], 413)]
)
async def test_a_batch_of_which_nothing_can_ever_be_stored_is_a_client_error(
    api: httpx.AsyncClient, topic: str, lines: list[bytes], status: int
) -> None:
    answer = await api.post(f"/topics/{topic}/batch", content=b"\n".join(lines), headers=NDJSON)
    assert (answer.status_code, len(answer.json()["results"])) == (status, len(lines))
    assert "Retry-After" not in answer.headers


async def test_keeps_the_order_of_the_messages_with_one_key(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    body = [{"key": "odd" if n % 2 else "even", "message": n} for n in range(600)]
    answer = await api.post(f"/topics/{topic}/batch?envelope=true", json=body)
    assert answer.status_code == 201
    for key in (b"odd", b"even"):
        numbers = [int(record.value or b"") for record in log.records(topic) if record.key == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 300


async def test_takes_as_many_messages_as_it_says_and_none_of_more(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    too_many = await api.post(f"/topics/{topic}/batch", json=[1] * (BATCH_MESSAGES_MAX + 1))
    assert (too_many.status_code, too_many.json()["code"]) == (400, "VALIDATION_ERROR")
    assert str(BATCH_MESSAGES_MAX) in too_many.json()["message"]
    assert log.records(topic) == []
    fits = await api.post(f"/topics/{topic}/batch", json=[1] * BATCH_MESSAGES_MAX)
    assert fits.status_code == 201
    assert len(log.records(topic)) == BATCH_MESSAGES_MAX


@for_each(
    ("content", "headers", "status", "says"),
    [
        (b"{}", JSON, 400, "JSON array"),
        (b"[1,", JSON, 400, "not JSON"),
        (b"", JSON, 400, "JSON array"),
        (b"[1]", {"Content-Type": "text/plain"}, 415, "application/x-ndjson"),
        (b"[1]", {}, 415, "absent"),
        (b"[1]", {**JSON, "Idempotency-Key": "a"}, 400, "envelope"),
        (b" " * (BATCH_BYTES_MAX + 1), NDJSON, 413, str(BATCH_BYTES_MAX)),
    ],
)
async def test_refuses_a_batch_that_is_wrong_as_a_whole(
    api: httpx.AsyncClient,
    topic: str,
    log: MemoryLog,
    content: bytes,
    headers: dict[str, str],
    status: int,
    says: str,
) -> None:
    answer = await api.post(f"/topics/{topic}/batch", content=content, headers=headers)
    assert answer.status_code == status
    assert says in answer.json()["message"]
    assert log.records(topic) == []


async def test_an_empty_batch_has_no_results(api: httpx.AsyncClient, topic: str) -> None:
    answer = await api.post(f"/topics/{topic}/batch", json=[])
    assert (answer.status_code, answer.json()) == (201, [])


async def test_a_batch_to_an_unknown_topic_is_not_found(api: httpx.AsyncClient) -> None:
    answer = await answer_of(lambda: api.post("/topics/no.such/batch", json=[1]))
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


@pytest.mark.parametrize("query", ["envelope=yes", "envelope="])
async def test_a_wrong_query_is_refused(api: httpx.AsyncClient, topic: str, query: str) -> None:
    answer = await api.post(f"/topics/{topic}/batch?{query}", json=[1])
    assert (answer.status_code, answer.json()["details"][0]["path"]) == (400, "envelope")
