import httpx
import pytest
from sqlalchemy import text

from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog


async def created(api: httpx.AsyncClient, name: str, alternate: str | None = None) -> str:
    body = {"name": name, "partitions": 1, "alternateTopic": alternate}
    (await api.post("/topics", json=body)).raise_for_status()
    return name


async def subscribed(api: httpx.AsyncClient, topic: str, name: str = "s") -> str:
    path = f"/topics/{topic}/subscriptions"
    (await api.post(path, json={"name": name, "endpoint": "http://h.test/"})).raise_for_status()
    return f"{path}/{name}"


async def test_says_how_many_subscriptions_get_a_message(
    api: httpx.AsyncClient, topic: str
) -> None:
    said = []
    for act in (
        lambda: subscribed(api, topic, "a"),
        lambda: subscribed(api, topic, "b"),
        lambda: api.put(f"/topics/{topic}/subscriptions/a/state", json="SUSPENDED"),
        lambda: api.delete(f"/topics/{topic}/subscriptions/a"),
        lambda: api.delete(f"/topics/{topic}/subscriptions/b"),
    ):
        answer = await api.post(f"/topics/{topic}", content=b"1")
        said.append(answer.headers["Angelia-Subscriptions"])
        await act()
    batch = await api.post(f"/topics/{topic}/batch", json=[1])
    assert [*said, batch.headers["Angelia-Subscriptions"]] == ["0", "1", "2", "2", "1", "0"]


async def test_a_message_that_must_be_taken_is_refused_while_nobody_takes_it(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    refused = await api.post(f"/topics/{topic}?mandatory=true", content=b"1")
    assert (refused.status_code, refused.json()["code"]) == (409, "UNROUTABLE")
    assert "Hermes-Message-Id" in refused.headers
    assert (await api.post(f"/topics/{topic}/batch?mandatory=true", json=[1])).status_code == 409
    assert log.records(topic) == []
    path = await subscribed(api, topic)
    assert (await api.post(f"/topics/{topic}?mandatory=true", content=b"1")).status_code == 201
    await api.put(f"{path}/state", json="SUSPENDED")
    assert (await api.post(f"/topics/{topic}?mandatory=true", content=b"1")).status_code == 409
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 201


async def test_a_message_that_nobody_takes_goes_to_the_alternate_topic(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    kept = await created(api, "shop.kept")
    main = await created(api, "shop.main", kept)
    answer = await api.post(f"/topics/{main}?mandatory=true", content=b"1")
    assert (answer.status_code, answer.headers["Angelia-Alternate-Topic"]) == (201, kept)
    assert [record.value for record in log.records(kept)] == [b"1"]
    assert log.records(main) == []
    await subscribed(api, main)
    answer = await api.post(f"/topics/{main}/batch?mandatory=true", json=[1])
    assert "Angelia-Alternate-Topic" not in answer.headers
    assert [record.value for record in log.records(main)] == [b"1"]


async def test_goes_on_to_the_first_alternate_that_somebody_takes_from(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    last = await created(api, "shop.last")
    taken = await created(api, "shop.taken", last)
    empty = await created(api, "shop.empty", taken)
    main = await created(api, "shop.main", empty)
    answers = [await api.post(f"/topics/{main}?mandatory=true", content=b"1")]
    await subscribed(api, taken)
    answers.append(await api.post(f"/topics/{main}?mandatory=true", content=b"2"))
    assert [each.headers["Angelia-Alternate-Topic"] for each in answers] == [last, taken]
    assert [each.headers["Angelia-Subscriptions"] for each in answers] == ["0", "1"]
    assert [record.value for record in log.records(taken)] == [b"2"]


async def test_an_alternate_topic_that_was_deleted_takes_nothing(api: httpx.AsyncClient) -> None:
    kept = await created(api, "shop.kept")
    main = await created(api, "shop.main", kept)
    (await api.delete(f"/topics/{kept}")).raise_for_status()
    refused = await api.post(f"/topics/{main}?mandatory=true", content=b"1")
    assert (refused.status_code, refused.json()["code"]) == (409, "UNROUTABLE")


async def test_refuses_alternates_that_do_not_exist_or_lead_back(api: httpx.AsyncClient) -> None:
    first = await created(api, "shop.first")
    second = await created(api, "shop.second", first)
    wrong = [
        await api.post("/topics", json={"name": "shop.new", "alternateTopic": "no.such"}),
        await api.post("/topics", json={"name": "shop.new", "alternateTopic": "shop.new"}),
        await api.put(f"/topics/{first}", json={"alternateTopic": second}),
        await api.put(f"/topics/{first}", json={"alternateTopic": "nodot"}),
    ]
    assert [each.status_code for each in wrong] == [400] * 4
    assert {each.json()["details"][0]["path"] for each in wrong} == {"alternateTopic"}
    assert (await api.get("/topics/shop.new")).status_code == 404
    assert "alternateTopic" not in (await api.get(f"/topics/{first}")).json()


async def test_an_alternate_topic_is_kept_shown_and_taken_back(api: httpx.AsyncClient) -> None:
    kept = await created(api, "shop.kept")
    main = await created(api, "shop.main", kept)
    assert (await api.get(f"/topics/{main}")).json()["alternateTopic"] == kept
    (await api.put(f"/topics/{main}", json={"alternateTopic": None})).raise_for_status()
    assert "alternateTopic" not in (await api.get(f"/topics/{main}")).json()


@for_each("value", ["yes", "", "1"])
async def test_a_wrong_mandatory_is_refused(api: httpx.AsyncClient, topic: str, value: str) -> None:
    refused = await api.post(f"/topics/{topic}?mandatory={value}", content=b"1")
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "mandatory")


BIG_ONES = {"type": "cel", "expression": "body.amount > 100"}


async def filtered(api: httpx.AsyncClient, topic: str, name: str, *filters: object) -> str:
    path = f"/topics/{topic}/subscriptions"
    body = {"name": name, "endpoint": "http://h.test/", "filters": filters}
    (await api.post(path, json=body)).raise_for_status()
    return f"{path}/{name}"


@pytest.fixture
async def picky(api: httpx.AsyncClient, topic: str) -> str:
    """A topic whose subscriptions all have filters."""
    await filtered(api, topic, "big", BIG_ONES)
    await filtered(api, topic, "other", {"type": "jsonpath", "path": "$.a", "matcher": "b"})
    return topic


@for_each(
    "body",
    [b'{"amount": 100}', b"{}", b'"text"', b'{"amount": "many"}', b"[" * 300 + b"]" * 300],
)
async def test_a_message_that_no_filter_lets_through_is_taken_by_nobody(
    api: httpx.AsyncClient, picky: str, log: MemoryLog, body: bytes
) -> None:
    before = log.records(picky)
    refused = await api.post(f"/topics/{picky}?mandatory=true", content=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "UNROUTABLE")
    assert picky in refused.json()["message"]
    assert "filters" in refused.json()["message"]
    assert log.records(picky) == before
    assert (await api.post(f"/topics/{picky}", content=body)).status_code == 201


async def test_a_message_that_one_filter_lets_through_is_stored(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await filtered(api, topic, "other", {"type": "jsonpath", "path": "$.a", "matcher": "b"})
    path = await filtered(api, topic, "big", BIG_ONES)
    big = b'{"amount": 101}'
    assert (await api.post(f"/topics/{topic}?mandatory=true", content=big)).status_code == 201
    await api.put(f"{path}/state", json="SUSPENDED")
    assert (await api.post(f"/topics/{topic}?mandatory=true", content=big)).status_code == 409
    await filtered(api, topic, "all")
    assert (await api.post(f"/topics/{topic}?mandatory=true", content=b"1")).status_code == 201
    assert len(log.records(topic)) == 2


async def test_filters_see_the_headers_key_and_id_that_the_message_is_stored_with(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    body = {"name": "shop.main", "propagatedHeaders": ["X-Tenant"]}
    (await api.post("/topics", json=body)).raise_for_status()
    seen = "headers['x-tenant'] == 'a' && key == 'k' && id == 'mine' && topic == 'shop.main'"
    await filtered(api, "shop.main", "s", {"type": "cel", "expression": seen})
    path = "/topics/shop.main?mandatory=true"
    headers = {"X-Tenant": "a", "Partition-Key": "k", "Idempotency-Key": "mine"}
    assert (await api.post(path, content=b"1", headers=headers)).status_code == 201
    for name in headers:
        lacking = {each: value for each, value in headers.items() if each != name}
        assert (await api.post(path, content=b"1", headers=lacking)).status_code == 409
    assert len(log.records("shop.main")) == 1


async def test_what_no_filter_lets_through_goes_on_to_the_alternate_topics(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    last = await created(api, "shop.last")
    small = await created(api, "shop.small", last)
    main = await created(api, "shop.main", small)
    await filtered(api, main, "big", BIG_ONES)
    await filtered(api, small, "small", {"type": "cel", "expression": "body.amount < 10"})
    await filtered(api, last, "none", {"type": "cel", "expression": "false"})
    answers = [
        await api.post(f"/topics/{main}?mandatory=true", content=b'{"amount": %d}' % amount)
        for amount in (1_000, 1, 50)
    ]
    assert [each.status_code for each in answers] == [201] * 3
    went = [each.headers.get("Angelia-Alternate-Topic") for each in answers]
    assert went == [None, small, last]
    assert [len(log.records(each)) for each in (main, small, last)] == [1, 1, 1]


async def test_each_message_of_a_batch_goes_where_somebody_wants_it(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    main = await created(api, "shop.main")
    await filtered(api, main, "big", BIG_ONES)
    batch = [{"amount": amount} for amount in (1_000, 1, 500)]
    alone = await api.post(f"/topics/{main}/batch?mandatory=true", json=batch)
    assert [each["status"] for each in alone.json()] == [201, 409, 201]
    assert alone.json()[1]["code"] == "UNROUTABLE"
    kept = await created(api, "shop.kept")
    (await api.put(f"/topics/{main}", json={"alternateTopic": kept})).raise_for_status()
    both = await api.post(f"/topics/{main}/batch?mandatory=true", json=batch)
    assert both.status_code == 201
    assert [each.get("alternateTopic") for each in both.json()] == [None, kept, None]
    assert "Angelia-Alternate-Topic" not in both.headers
    assert [record.value for record in log.records(kept)] == [b'{"amount":1}']
    assert len(log.records(main)) == 4
    nobody = await api.post(f"/topics/{main}/batch?mandatory=true", json=batch[1:2])
    assert nobody.headers["Angelia-Alternate-Topic"] == kept


BIG_AND_SMALL = [{"amount": amount} for amount in (1_000, 1, 500)]


@pytest.fixture
async def no_published_ids(database: Database) -> None:
    """The database, which is the test's own, claims no ids."""
    async with database.transaction() as session:
        await session.execute(text("DROP TABLE published_ids"))


@pytest.fixture
async def no_ids_of(database: Database, failing: str) -> None:
    """The database claims no ids of that topic, for a reason that nothing expects."""
    async with database.transaction() as session:
        await session.execute(
            text(f"ALTER TABLE published_ids ADD CHECK (1 / (topic <> '{failing}')::int = 1)")
        )


async def routed(api: httpx.AsyncClient, *, main: bool, kept: bool) -> str:
    """A topic that stores big ones, and has the others stored in its alternate."""
    once = {"deduplication": {"ttl": 60, "maxEntries": 1000, "expression": "body.amount"}}
    for name, is_once, alternate in (("shop.kept", kept, None), ("shop.main", main, "shop.kept")):
        body = {"name": name, "alternateTopic": alternate, **(once if is_once else {})}
        (await api.post("/topics", json=body)).raise_for_status()
    await filtered(api, "shop.main", "big", BIG_ONES)
    return "/topics/shop.main/batch?mandatory=true"


@pytest.mark.parametrize("failing", ["shop.main", "shop.kept"])
@pytest.mark.usefixtures("no_published_ids")
async def test_a_topic_that_stores_nothing_fails_only_its_own_messages_of_a_batch(
    api: httpx.AsyncClient, log: MemoryLog, failing: str
) -> None:
    path = await routed(api, main=failing == "shop.main", kept=failing == "shop.kept")
    answer = await api.post(path, json=BIG_AND_SMALL)
    went = ["shop.main", "shop.kept", "shop.main"]
    assert answer.status_code == 207
    expected = [503 if topic == failing else 201 for topic in went]
    assert [each["status"] for each in answer.json()] == expected
    codes = {each["code"] for each in answer.json() if each["status"] == 503}
    assert codes == {"STORAGE_UNAVAILABLE"}
    stored = {each["id"].encode() for each in answer.json() if each["status"] == 201}
    records = [*log.records("shop.main"), *log.records("shop.kept")]
    assert {record.header(b"id") for record in records} == stored
    assert log.records(failing) == []


@pytest.mark.parametrize("failing", ["shop.main", "shop.kept"])
@pytest.mark.usefixtures("no_ids_of")
async def test_what_breaks_in_one_topic_fails_only_its_own_messages_of_a_batch(
    api: httpx.AsyncClient, log: MemoryLog, failing: str
) -> None:
    path = await routed(api, main=True, kept=True)
    answer = await api.post(path, json=BIG_AND_SMALL)
    went = ["shop.main", "shop.kept", "shop.main"]
    expected = [(500, "OTHER") if topic == failing else (201, None) for topic in went]
    assert answer.status_code == 207
    assert [(each["status"], each.get("code")) for each in answer.json()] == expected
    stored = {each["id"].encode() for each in answer.json() if each["status"] == 201}
    records = [*log.records("shop.main"), *log.records("shop.kept")]
    assert {record.header(b"id") for record in records} == stored


@pytest.mark.usefixtures("no_published_ids")
async def test_a_batch_of_which_no_topic_stores_anything_fails_as_one(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    answer = await api.post(await routed(api, main=True, kept=True), json=BIG_AND_SMALL)
    assert (answer.status_code, answer.json()["code"]) == (503, "STORAGE_UNAVAILABLE")
    assert (answer.headers["Retry-After"], "results" in answer.json()) == ("1", False)
    assert [*log.records("shop.main"), *log.records("shop.kept")] == []


@pytest.mark.parametrize(
    ("kept", "wrong", "status"),
    [
        ({"schema": '{"type": "object"}'}, b"1", 400),
        ({"maxMessageSize": 1024}, b"{}".ljust(1025), 413),
    ],
)
async def test_a_message_must_be_what_the_alternate_topic_takes(
    api: httpx.AsyncClient,
    log: MemoryLog,
    *,
    kept: dict[str, object],
    wrong: bytes,
    status: int,
) -> None:
    (await api.post("/topics", json={"name": "shop.kept", **kept})).raise_for_status()
    main = await created(api, "shop.main", "shop.kept")
    await filtered(api, main, "big", BIG_ONES)
    path = f"/topics/{main}?mandatory=true"
    assert (await api.post(path, content=wrong)).status_code == status
    lines = {"Content-Type": "application/x-ndjson"}
    batch = await api.post(f"/topics/{main}/batch?mandatory=true", content=wrong, headers=lines)
    assert batch.status_code == status
    assert (await api.post(path, content=b"{}")).status_code == 201
    assert [record.value for record in log.records("shop.kept")] == [b"{}"]


async def test_filters_look_at_the_json_of_a_message_of_an_avro_topic(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    schema = '{"type":"record","name":"R","fields":[{"name":"amount","type":"int"}]}'
    body = {"name": "shop.avro", "contentType": "AVRO", "schema": schema}
    (await api.post("/topics", json=body)).raise_for_status()
    await filtered(api, "shop.avro", "big", BIG_ONES)
    path = "/topics/shop.avro?mandatory=true"
    answers = [await api.post(path, json={"amount": amount}) for amount in (101, 100)]
    assert [each.status_code for each in answers] == [201, 409]
    assert len(log.records("shop.avro")) == 1
