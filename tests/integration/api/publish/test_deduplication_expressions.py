"""Topics that know a message again by what an expression makes of it."""

import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

TOPIC = "shop.once"
BY_ORDER = "[headers['x-tenant'], body.order]"

Publish = Callable[..., Awaitable[httpx.Response]]


async def a_topic(api: httpx.AsyncClient, expression: str) -> None:
    body = {
        "name": TOPIC,
        "partitions": 1,
        "propagatedHeaders": ["X-Tenant"],
        "deduplication": {"expression": expression, "ttl": 60},
    }
    (await api.post("/topics", json=body)).raise_for_status()


@pytest.fixture
async def by_order(api: httpx.AsyncClient) -> Publish:
    """Publishes to a topic whose messages are known by tenant and order."""
    await a_topic(api, BY_ORDER)

    async def publish(body: str, tenant: str = "a", own_id: str = "") -> httpx.Response:
        headers = {"X-Tenant": tenant} | ({"Idempotency-Key": own_id} if own_id else {})
        return await api.post(f"/topics/{TOPIC}", content=body, headers=headers)

    return publish


def bodies(log: MemoryLog) -> list[bytes]:
    return [record.value or b"" for record in log.records(TOPIC)]


def duplicate(answer: httpx.Response) -> bool:
    return "Angelia-Duplicate" in answer.headers


async def test_what_has_the_same_value_is_stored_once_whatever_id_it_comes_with(
    by_order: Publish, log: MemoryLog
) -> None:
    answers = [
        await by_order('{"order":1}', own_id="x"),
        await by_order('{"n":2,"order":1}', own_id="y"),
        await by_order('{"order":1}', "b", own_id="x"),
        await by_order('{"order":"1"}'),
        await by_order('{"order":"1","n":5}'),
    ]
    assert {each.status_code for each in answers} == {201}
    assert [duplicate(each) for each in answers] == [False, True, False, False, True]
    assert bodies(log) == [b'{"order":1}', b'{"order":1}', b'{"order":"1"}']


@for_each(
    ("body", "path", "says"),
    [
        ("{}", "deduplication.expression", "there is no 'order'"),
        ("not json", "message", "not JSON"),
        ('{"order":1', "message", "not JSON"),
    ],
)
async def test_a_message_without_a_value_is_refused_and_told_what_it_lacks(
    by_order: Publish, log: MemoryLog, body: str, *, path: str, says: str
) -> None:
    refused = await by_order(body)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    [problem] = refused.json()["details"]
    assert problem["path"] == path
    assert says in problem["message"]
    assert bodies(log) == []


async def test_a_message_without_the_header_is_refused(
    api: httpx.AsyncClient, by_order: Publish
) -> None:
    assert (await by_order('{"order":1}')).status_code == 201
    refused = await api.post(f"/topics/{TOPIC}", content='{"order":1}')
    assert refused.status_code == 400
    assert "there is no 'x-tenant'" in refused.json()["message"]


@for_each(
    ("expression", "says"),
    [
        (BY_ORDER, "names the header x-tenant, which propagatedHeaders of the topic must have"),
        ("headers.tenant", "names the header tenant,"),
        ("'x-tenant' in headers ? 1 : null", "names the header x-tenant,"),
        ('headers["X-Other"]', "in lower case here, x-other"),
    ],
)
async def test_a_header_that_no_message_has_is_refused_when_the_topic_is_created_or_changed(
    api: httpx.AsyncClient, expression: str, says: str
) -> None:
    wanted = {"propagatedHeaders": ["X-Other"], "deduplication": {"expression": expression}}
    refused = await api.post("/topics", json={"name": "shop.refused", **wanted})
    assert refused.status_code == 400
    [problem] = refused.json()["details"]
    assert problem["path"] == "deduplication.expression"
    assert says in problem["message"]
    (await api.post("/topics", json={"name": "shop.refused"})).raise_for_status()
    assert (await api.put("/topics/shop.refused", json=wanted)).status_code == 400
    (await api.delete("/topics/shop.refused")).raise_for_status()


async def test_a_header_that_an_expression_names_stays_propagated(
    api: httpx.AsyncClient, by_order: Publish
) -> None:
    del by_order
    refused = await api.put(f"/topics/{TOPIC}", json={"propagatedHeaders": []})
    assert refused.status_code == 400
    assert "x-tenant" in refused.json()["message"]


async def test_traces_and_attributes_of_events_need_not_be_propagated(
    api: httpx.AsyncClient,
) -> None:
    expression = "[headers['ce-id'], headers['traceparent']]"
    body = {"name": "shop.events", "deduplication": {"expression": expression}}
    assert (await api.post("/topics", json=body)).status_code == 201


async def test_what_is_null_is_always_stored(api: httpx.AsyncClient, log: MemoryLog) -> None:
    await a_topic(api, "has(body.order) ? body.order : null")
    sent = ['{"order":7}', "{}", "{}", '{"order":7}', '{"order":null}', '{"order":null}']
    answers = [await api.post(f"/topics/{TOPIC}", content=body) for body in sent]
    assert [duplicate(each) for each in answers] == [False, False, False, True, False, False]
    assert len(bodies(log)) == 5


async def test_each_message_of_a_batch_is_judged_by_itself(
    api: httpx.AsyncClient, by_order: Publish, log: MemoryLog
) -> None:
    await by_order('{"order":0}')
    batch = [{"order": 0}, {"order": 1}, {"other": 1}, {"order": 1, "n": 2}, {"order": 2}]
    answer = await api.post(f"/topics/{TOPIC}/batch", json=batch, headers={"X-Tenant": "a"})
    assert answer.status_code == 207
    assert [each["status"] for each in answer.json()] == [201, 201, 400, 201, 201]
    assert [each.get("duplicate", False) for each in answer.json()] == [
        *(True, False, False, True, False)
    ]
    assert "there is no 'order'" in answer.json()[2]["message"]
    assert [json.loads(body) for body in bodies(log)] == [{"order": 0}, {"order": 1}, {"order": 2}]


async def test_a_batch_of_which_nothing_has_a_value_stores_nothing(
    api: httpx.AsyncClient, by_order: Publish, log: MemoryLog
) -> None:
    del by_order
    answer = await api.post(f"/topics/{TOPIC}/batch", json=[1, {}], headers={"X-Tenant": "a"})
    assert answer.status_code == 400
    assert [each["status"] for each in answer.json()["results"]] == [400, 400]
    assert bodies(log) == []


async def test_a_changed_expression_does_not_take_other_values_for_its_own(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    await a_topic(api, "body.customer")
    await api.post(f"/topics/{TOPIC}", json={"customer": 1, "order": 9})
    changed = {"deduplication": {"expression": "body.order"}}
    (await api.put(f"/topics/{TOPIC}", json=changed)).raise_for_status()
    answer = await api.post(f"/topics/{TOPIC}", json={"customer": 2, "order": 1})
    assert not duplicate(answer)
    back = {"deduplication": {"expression": None}}
    (await api.put(f"/topics/{TOPIC}", json=back)).raise_for_status()
    for _ in range(2):
        assert not duplicate(await api.post(f"/topics/{TOPIC}", json={}))
    assert len(bodies(log)) == 4


async def test_an_expression_is_kept_and_shown(api: httpx.AsyncClient) -> None:
    await a_topic(api, BY_ORDER)
    shown = (await api.get(f"/topics/{TOPIC}")).json()["deduplication"]
    kept = {"expression": BY_ORDER, "ttl": 60, "maxEntries": 100_000, "onDuplicate": "ACCEPT"}
    assert shown == kept
