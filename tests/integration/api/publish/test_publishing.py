import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from app.config import Settings
from app.domain.message import Partition
from app.main import create_app
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.api.slow_answers import answer_of, readiness


async def test_stores_a_body_byte_for_byte_with_its_headers(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    body = b'\n{"caf\xc3\xa9" : 1.50e0, "\\u00e9":"\x7f", "1":1, "1":2}\r\n'
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"Content-Type": "text/x+json; v=1", "Partition-Key": "k", "traceparent": trace}
    answer = await api.post(f"/topics/{topic}", content=body, headers=headers)
    (record,) = log.records(topic)
    assert (answer.status_code, answer.content) == (201, b"")
    assert (record.value, record.key) == (body, b"k")
    assert record.headers == [
        (b"id", answer.headers["Hermes-Message-Id"].encode()),
        (b"ts", str(record.timestamp_ms).encode()),
        (b"ct", b"text/x+json; v=1"),
        (b"h-traceparent", trace.encode()),
    ]


@for_each(
    ("given", "stored"),
    [
        ("application/x-www-form-urlencoded", b"application/json"),
        ("text/plain", b"application/json"),
        ("avro/json", b"application/json"),
        ("application/json; charset=utf-8", b"application/json; charset=utf-8"),
        ("application/vnd.shop+json", b"application/vnd.shop+json"),
    ],
)
async def test_a_json_message_is_stored_with_a_type_of_json_whatever_its_publisher_says(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, given: str, stored: bytes
) -> None:
    await api.post("/topics", json={"name": "shop.main", "alternateTopic": topic})
    headers = {"Content-Type": given, "Partition-Key": "k"}
    for path in (f"/topics/{topic}", "/topics/shop.main?mandatory=true"):
        answer = await api.post(path, content=b"{}", headers=headers)
        assert answer.status_code == 201
    assert [record.header(b"ct") for record in log.records(topic)[-2:]] == [stored, stored]


NOT_JSON = [
    (b"hello", "is not JSON"),
    (b'{"order": 4711', "is not JSON: unexpected end of data"),
    (b"[1e400]", "beyond the range of a double"),
    (b'["\\ud83d"]', "half of a surrogate pair"),
]


@for_each(("body", "says"), NOT_JSON)
@pytest.mark.parametrize("media", ["application/json", "text/plain"])
async def test_a_topic_without_schema_refuses_what_is_not_json_and_says_why(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, *, body: bytes, says: str, media: str
) -> None:
    answer = await api.post(f"/topics/{topic}", content=body, headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    (problem,) = answer.json()["details"]
    assert problem["path"] == "message"
    assert says in problem["message"]
    assert log.records(topic) == []


@for_each(("body", "says"), NOT_JSON)
async def test_a_batch_has_the_same_answer_for_each_message_that_is_not_json(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, body: bytes, says: str
) -> None:
    before = len(log.records(topic))
    alone = await api.post(f"/topics/{topic}", content=body)
    headers = {"Content-Type": "application/x-ndjson"}
    lines = await api.post(f"/topics/{topic}/batch", content=b"1\n" + body, headers=headers)
    assert lines.status_code == 207
    stored, refused = lines.json()
    assert stored["status"] == 201
    assert (refused["status"], refused["code"]) == (400, "VALIDATION_ERROR")
    assert refused["message"] == alone.json()["message"]
    assert says in refused["message"]
    assert [record.value for record in log.records(topic)] == [b"1"] * (before + 1)


async def test_an_element_of_an_array_that_is_beyond_what_can_be_read_is_refused_alone(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'[1, "\\ud83d", 1e400]'
    answer = await api.post(f"/topics/{topic}/batch", content=body, headers=headers)
    assert [each["status"] for each in answer.json()] == [201, 400, 400]
    assert [record.value for record in log.records(topic)] == [b"1"]


async def test_a_message_refused_for_its_time_may_come_again(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.wrong_time.add(topic)
    answer = await api.post(f"/topics/{topic}", content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (503, "MESSAGE_TIME_REFUSED")
    assert answer.headers["Retry-After"] == "1"


async def test_refuses_an_empty_body(api: httpx.AsyncClient, topic: str, log: MemoryLog) -> None:
    answer = await api.post(f"/topics/{topic}")
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "is empty" in answer.json()["message"]
    assert log.records(topic) == []


async def test_gives_each_message_an_id_of_its_own(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    answers = [await api.post(f"/topics/{topic}", content=b"1") for _ in range(3)]
    ids = {answer.headers["Hermes-Message-Id"] for answer in answers}
    assert len(ids) == 3
    assert {(record.header(b"id") or b"").decode() for record in log.records(topic)} == ids


async def test_takes_the_publishers_own_id(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    answer = await api.post(
        f"/topics/{topic}", content=b"1", headers={"Idempotency-Key": "order-4711/a"}
    )
    assert answer.headers["Hermes-Message-Id"] == "order-4711/a"
    assert log.records(topic)[0].header(b"id") == b"order-4711/a"


@for_each("key", ["", "a b", "a.b", "x" * 129, "\xe9"])
async def test_refuses_an_id_that_could_not_be_signed(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, key: str
) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    answer = await api.post(f"/topics/{topic}", content=b"1", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["code"] == "VALIDATION_ERROR"
    assert answer.json()["details"][0]["path"] == "Idempotency-Key"
    assert answer.headers["Hermes-Message-Id"] not in {"", key}
    assert log.records(topic) == []


async def test_refuses_a_body_over_the_topics_limit_and_says_the_limit(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    fits = await api.post(f"/topics/{topic}", content=b"1".ljust(2048))
    too_large = await api.post(f"/topics/{topic}", content=b"1".ljust(2049))
    assert fits.status_code == 201
    assert (too_large.status_code, too_large.json()["code"]) == (413, "VALIDATION_ERROR")
    assert "2048" in too_large.json()["message"]
    assert "Hermes-Message-Id" in too_large.headers
    assert len(log.records(topic)) == 1


async def test_refuses_an_oversized_body_that_does_not_say_its_size(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"1".ljust(1000)

    answer = await api.post(f"/topics/{topic}", content=parts())
    assert answer.status_code == 413
    assert log.records(topic) == []


async def test_stores_nothing_of_a_body_that_breaks_off(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    port = api.base_url.port
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST /topics/{topic} HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 9\r\n\r\nhalf".encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    # What came before on the same server has been dealt with when this is answered.
    assert (await api.post(f"/topics/{topic}", content=b'"whole"')).status_code == 201
    assert [record.value for record in log.records(topic)] == [b'"whole"']


async def test_answers_404_for_an_unknown_topic_with_a_message_id(api: httpx.AsyncClient) -> None:
    answer = await answer_of(lambda: api.post("/topics/no.such", content=b"1"))
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
    assert "Hermes-Message-Id" in answer.headers


async def test_a_topic_created_by_another_process_works_at_once(
    settings: Settings, postgres_url: str, log: MemoryLog, api: httpx.AsyncClient
) -> None:
    other = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(other) as elsewhere:
        assert (await api.get("/status/ping")).text == "UP"
        (await elsewhere.post("/topics", json={"name": "shop.new"})).raise_for_status()
        published = await answer_of(lambda: api.post("/topics/shop.new", content=b"1"))
        assert published.status_code == 201


async def test_a_deleted_topic_takes_no_more_messages(api: httpx.AsyncClient, topic: str) -> None:
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 201
    (await api.delete(f"/topics/{topic}")).raise_for_status()
    refused = await answer_of(lambda: api.post(f"/topics/{topic}", content=b"1"))
    assert refused.status_code == 404


async def test_records_with_one_key_keep_their_order(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    for number in range(10):
        await api.post(f"/topics/{topic}", content=b"%d" % number, headers={"Partition-Key": "k"})
    chunks = [await log.fetch(Partition(topic, index), 0, bytes_max=1 << 20) for index in range(2)]
    (kept,) = [chunk.records for chunk in chunks if chunk.records]
    assert [record.value for record in kept] == [b"%d" % number for number in range(10)]


async def test_a_process_that_only_publishes_serves_nothing_else(
    settings: Settings, postgres_url: str, log: MemoryLog, api: httpx.AsyncClient, topic: str
) -> None:
    app = create_app(settings, database_url=postgres_url, only="publish", log=given(log))
    async with serving(app) as publish:
        assert (await publish.post(f"/topics/{topic}", content=b"1")).status_code == 201
        assert (await readiness(publish, is_ready=True)).json()["status"] == "READY"
        refused = await publish.get(f"/topics/{topic}")
        assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
        assert (await publish.get("/topics")).status_code == 404
    assert (await api.get("/status/ping")).text == "UP"


async def test_a_process_that_only_manages_does_not_publish(
    settings: Settings, postgres_url: str, log: MemoryLog, api: httpx.AsyncClient, topic: str
) -> None:
    app = create_app(settings, database_url=postgres_url, only="management", log=given(log))
    async with serving(app) as management:
        refused = await management.post(f"/topics/{topic}", content=b"1")
        assert (refused.status_code, refused.json()["code"]) == (405, "OTHER")
        assert (await management.get(f"/topics/{topic}")).status_code == 200
    assert (await api.get("/status/ping")).text == "UP"


async def test_headers_that_the_topic_names_go_with_the_message_and_no_others(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    changed = await api.put(f"/topics/{topic}", json={"propagatedHeaders": ["X-Tenant", "X-Flag"]})
    assert changed.json()["propagatedHeaders"] == ["X-Tenant", "X-Flag"]
    given = [("x-tenant", "acme"), ("X-FLAG", "1"), ("x-flag", "2"), ("X-Other", "no")]
    await api.post(f"/topics/{topic}", content=b"1", headers=given)
    (record,) = log.records(topic)
    assert [pair for pair in record.headers if pair[0].startswith(b"h-")] == [
        (b"h-X-Tenant", b"acme"),
        (b"h-X-Flag", b"1"),
        (b"h-X-Flag", b"2"),
    ]


async def test_headers_for_which_the_log_has_no_room_are_refused(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await api.put(f"/topics/{topic}", json={"propagatedHeaders": ["X-Tenant"]})
    answer = await api.post(f"/topics/{topic}", headers={"X-Tenant": "a" * 8 * 1024})
    assert (answer.status_code, answer.json()["message"]) == (
        413,
        "The propagated headers are larger than 8192 bytes",
    )
    assert log.records(topic) == []


@for_each("name", ["a b", "Transfer-Encoding", ""])
async def test_a_topic_names_only_headers_that_can_be_sent_on(
    api: httpx.AsyncClient, topic: str, name: str
) -> None:
    refused = await api.put(f"/topics/{topic}", json={"propagatedHeaders": ["X-A", name]})
    assert refused.status_code == 400
    assert refused.json()["details"][0]["path"] == "propagatedHeaders.1"
