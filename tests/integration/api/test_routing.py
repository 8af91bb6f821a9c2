import httpx
import pytest

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


@pytest.mark.parametrize("value", ["yes", "", "1"])
async def test_a_wrong_mandatory_is_refused(api: httpx.AsyncClient, topic: str, value: str) -> None:
    refused = await api.post(f"/topics/{topic}?mandatory={value}", content=b"1")
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "mandatory")
