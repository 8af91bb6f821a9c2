import httpx
import orjson

from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
EVENT = {"specversion": "1.0", "id": "e-1", "source": "/s", "type": "t", "data": {"a": 1}}


async def test_an_event_in_binary_mode_keeps_its_attributes_as_headers(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    attributes = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/s", "ce-type": "t"}
    headers = {"Content-Type": "application/json", **attributes, "ce-partitionkey": "k"}
    answer = await api.post(f"/topics/{topic}", content=b'{"a": 1}', headers=headers)
    (record,) = log.records(topic)
    assert (answer.status_code, answer.headers["Hermes-Message-Id"]) == (201, "e-1")
    assert (record.value, record.key, record.header(b"id")) == (b'{"a": 1}', b"k", b"e-1")
    kept = {name: value for name, value in record.headers if name.startswith(b"h-ce-")}
    assert {f"h-{name}".encode(): value.encode() for name, value in attributes.items()} == {
        name: value for name, value in kept.items() if name != b"h-ce-partitionkey"
    }


async def test_an_event_in_binary_mode_may_be_without_data(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    attributes = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/s", "ce-type": "t"}
    answer = await api.post(f"/topics/{topic}", headers=attributes)
    assert answer.status_code == 201
    assert [record.value for record in log.records(topic)] == [b""]
    refused = await api.post(f"/topics/{topic}", content=b"text", headers=attributes)
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "message")


async def test_an_event_in_structured_mode_is_kept_whole_and_gives_its_id(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    body = orjson.dumps({**EVENT, "partitionkey": "k"})
    answer = await api.post(f"/topics/{topic}", content=body, headers=STRUCTURED)
    (record,) = log.records(topic)
    assert (answer.status_code, answer.headers["Hermes-Message-Id"]) == (201, "e-1")
    assert (record.value, record.key, record.header(b"id")) == (body, b"k", b"e-1")
    assert record.header(b"ct") == STRUCTURED["Content-Type"].encode()


async def test_what_the_publisher_says_in_headers_comes_before_its_event(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    headers = {**STRUCTURED, "Idempotency-Key": "mine", "Partition-Key": "p"}
    body = orjson.dumps({**EVENT, "partitionkey": "k"})
    answer = await api.post(f"/topics/{topic}", content=body, headers=headers)
    (record,) = log.records(topic)
    assert answer.headers["Hermes-Message-Id"] == "mine"
    assert (record.key, record.header(b"id")) == (b"p", b"mine")


@for_each("event_id", ["a.b", "with space", "x" * 129])
async def test_an_event_whose_id_no_message_can_have_gets_another(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, event_id: str
) -> None:
    body = orjson.dumps({**EVENT, "id": event_id})
    structured = await api.post(f"/topics/{topic}", content=body, headers=STRUCTURED)
    binary = await api.post(f"/topics/{topic}", content=b"1", headers={"ce-id": event_id})
    for answer in (structured, binary):
        assert answer.status_code == 201
        assert answer.headers["Hermes-Message-Id"] != event_id
    assert body in {record.value for record in log.records(topic)}


@for_each(
    ("body", "code"), [(b"{", "FORMAT_ERROR"), (b"{}", "VALIDATION_ERROR"), (b"1", "FORMAT_ERROR")]
)
async def test_refuses_what_is_no_event_but_says_it_is(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, body: bytes, code: str
) -> None:
    answer = await api.post(f"/topics/{topic}", content=body, headers=STRUCTURED)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert log.records(topic) == []


async def test_a_batch_of_events_is_told_where_batches_go(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    headers = {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"}
    body = orjson.dumps([EVENT])
    refused = await api.post(f"/topics/{topic}", content=body, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "FORMAT_ERROR")
    assert "/topics/{topic}/batch" in refused.json()["message"]
    assert log.records(topic) == []
    sent = await api.post(f"/topics/{topic}/batch", content=body, headers=headers)
    assert sent.is_success
    assert [record.header(b"id") for record in log.records(topic)] == [b"e-1"]
