import asyncio
import itertools

import httpx
import pytest
from sqlalchemy import text

from app.domain.commit import initial_metadata
from app.domain.message import Partition
from app.log.interface import Committed
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage import builders
from tests.integration.storage.builders import a_worker

ENDPOINT = "http://user:secret@subscriber.test/"
PATIENCE_S = 60.0
STRICT = {"Prefer": "handling=strict"}


async def beat(database: Database, applied_change: int, worker: str = "w1") -> None:
    """A heartbeat of a worker that has applied every change up to that one."""
    await builders.beat(database, a_worker(worker, applied=applied_change))


async def last_change(database: Database) -> int:
    async with database.transaction() as session:
        return await ChangeFeed(session).current()


async def test_the_smallest_body_of_the_old_documents_creates_a_subscription(
    api: httpx.AsyncClient, topic: str
) -> None:
    body = {"name": "mySubscription", "endpoint": "http://my-service", "supportTeam": "My Team"}
    created = await api.post(f"/topics/{topic}/subscriptions", json=body)
    answer = created.json()
    assert created.status_code == 201
    assert created.headers["Location"] == f"/topics/{topic}/subscriptions/mySubscription"
    assert "Angelia-Ignored-Fields" not in created.headers
    assert answer["subscriptionPolicy"] == {
        "rate": 100,
        "messageTtl": 3600,
        "requestTimeout": 1000,
        "messageBackoff": 100,
        "backoffMultiplier": 1.0,
        "backoffMaxIntervalInSec": 600,
        "backoffMaxIntervalMillis": 600000,
        "retryClientErrors": False,
        "inflightSize": 100,
        "retryBufferSize": 10000,
        "parkedKeysMax": 1000,
        "adaptiveRate": True,
        "heartbeatMax": 60,
        "firstRetryImmediate": False,
        "onExhausted": "WAIT",
        "socketTimeout": 0,
        "sendingDelay": 0,
        "batchSize": 100,
        "batchVolume": 64000,
        "batchTime": 30000,
    }
    assert answer["supportTeam"] == "My Team"
    assert answer["owner"] == {"source": "Plaintext", "id": "My Team"}
    assert (answer["topicName"], answer["contact"], answer["description"]) == (topic, "", "")
    assert answer["createdAt"] == answer["modifiedAt"] > 1.6e9
    assert (await api.get(f"/topics/{topic}/subscriptions")).json() == ["mySubscription"]
    assert (await api.get(created.headers["Location"])).json() == answer


async def test_the_full_body_of_the_old_documents_is_taken_as_it_is(
    api: httpx.AsyncClient, topic: str
) -> None:
    body = {
        "name": "mySubscription",
        "endpoint": "http://my-service",
        "description": "This is my subscription",
        "trackingEnabled": False,
        "supportTeam": "My Team",
        "contact": "my-team@my-company.com",
        "subscriptionPolicy": {"rate": 10, "messageTtl": 60, "retryClientErrors": True},
    }
    created = await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)
    answer = created.json()
    assert created.status_code == 201
    assert {name: answer[name] for name in body if name != "subscriptionPolicy"} == {
        name: value for name, value in body.items() if name != "subscriptionPolicy"
    }
    given = answer["subscriptionPolicy"]
    assert (given["rate"], given["messageTtl"], given["retryClientErrors"]) == (10, 60, True)


async def test_the_body_that_the_console_of_hermes_sends_creates_a_subscription(
    api: httpx.AsyncClient, topic: str
) -> None:
    body = {
        "name": "billing",
        "topicName": topic,
        "owner": {"source": "Plaintext", "id": "Billing"},
        "contentType": "JSON",
        "deliveryType": "SERIAL",
        "description": "",
        "endpoint": "https://billing.test/in",
        "filters": [],
        "ordering": "NONE",
        "headers": [],
        "http2Enabled": False,
        "mode": "ANYCAST",
        "monitoringDetails": {"reaction": "", "severity": "NON_IMPORTANT"},
        "subscriptionPolicy": {
            "messageTtl": 3600,
            "requestTimeout": 1000,
            "messageBackoff": 1000,
            "inflightSize": None,
            "sendingDelay": 0,
            "socketTimeout": 0,
        },
        "trackingMode": "trackingOff",
        "endpointAddressResolverMetadata": {},
        "subscriptionIdentityHeadersEnabled": False,
        "autoDeleteWithTopicEnabled": False,
        "profilingEnabled": False,
        "profilingThresholdMs": 0,
    }
    created = await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)
    assert created.status_code == 201
    assert created.json()["subscriptionPolicy"]["rate"] == 400
    assert created.json()["subscriptionPolicy"]["inflightSize"] == 100
    assert created.json()["supportTeam"] == "Billing"


async def test_a_new_subscription_starts_at_the_ends_and_says_so_to_the_log(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database
) -> None:
    for _ in range(3):
        await api.post(f"/topics/{topic}", content=b"1", headers={"Partition-Key": "k"})
    body = {"name": "billing", "endpoint": ENDPOINT}
    (await api.post(f"/topics/{topic}/subscriptions", json=body)).raise_for_status()
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "billing")
    assert sorted(stored.start.values()) == [0, 3]
    assert log.commits[stored.group] == {
        Partition(topic, index): Committed(offset, initial_metadata(stored.id))
        for index, offset in stored.start.items()
    }


async def test_creating_it_again_does_not_move_the_offsets_of_the_one_there_is(
    api: httpx.AsyncClient, topic: str, subscription: str, log: MemoryLog
) -> None:
    before = dict(log.commits[f"{topic}_billing"])
    await api.post(f"/topics/{topic}", content=b"1")
    body = {"name": "billing", "endpoint": ENDPOINT}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "SUBSCRIPTION_ALREADY_EXISTS")
    assert log.commits[f"{topic}_billing"] == before
    assert (await api.get(subscription)).status_code == 200


async def test_nothing_is_created_while_the_log_is_down(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.go_down()
    body = {"name": "billing", "endpoint": ENDPOINT}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert (await api.get(f"/topics/{topic}/subscriptions")).json() == []


async def test_nothing_is_created_when_the_log_does_not_take_the_first_offsets(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.failing_commits[f"{topic}_billing"] = "coordinator not available"
    body = {"name": "billing", "endpoint": ENDPOINT}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert (refused.status_code, refused.json()["code"]) == (503, "SENDING_TO_KAFKA_TIMEOUT")
    assert (await api.get(f"/topics/{topic}/subscriptions")).json() == []


async def test_passwords_are_masked_and_a_masked_endpoint_means_unchanged(
    api: httpx.AsyncClient, topic: str, subscription: str, database: Database
) -> None:
    read = (await api.get(subscription)).json()
    assert read["endpoint"] == "http://user:*****@subscriber.test/"
    patch = {"endpoint": read["endpoint"], "description": "new"}
    (await api.put(subscription, json=patch)).raise_for_status()
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "billing")
    assert (stored.endpoint, stored.description) == (ENDPOINT, "new")


async def test_a_masked_password_is_not_sent_to_another_place(
    api: httpx.AsyncClient, subscription: str
) -> None:
    patch = {"endpoint": "http://user:*****@elsewhere.test/"}
    refused = await api.put(subscription, json=patch)
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "endpoint")


async def test_a_subscription_sent_back_as_it_was_read_changes_nothing(
    api: httpx.AsyncClient, subscription: str
) -> None:
    read = (await api.get(subscription)).json()
    assert (await api.put(subscription, json=read, headers=STRICT)).json() == read


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_is_changed_by_a_merge_patch(
    api: httpx.AsyncClient, subscription: str, method: str
) -> None:
    before = (await api.get(subscription)).json()
    patch = {"contact": "c", "subscriptionPolicy": {"rate": 7, "inflightSize": 3}}
    await api.request(method, subscription, json=patch)
    changed = (await api.get(subscription)).json()
    assert changed["contact"] == "c"
    expected = before["subscriptionPolicy"] | patch["subscriptionPolicy"]
    assert changed["subscriptionPolicy"] == expected
    reset = {"subscriptionPolicy": {"rate": None}, "contact": None}
    after = (await api.request(method, subscription, json=reset)).json()
    assert (after["subscriptionPolicy"]["rate"], after["contact"]) == (400, "")
    assert after["subscriptionPolicy"]["inflightSize"] == 3


async def test_concurrent_patches_do_not_undo_each_other(
    api: httpx.AsyncClient, subscription: str
) -> None:
    patches: list[dict[str, object]] = [
        {"subscriptionPolicy": {"rate": 7}},
        {"subscriptionPolicy": {"inflightSize": 3}},
        {"contact": "c"},
        {"description": "d"},
    ]
    await asyncio.gather(*(api.put(subscription, json=patch) for patch in patches))
    changed = (await api.get(subscription)).json()
    assert (changed["contact"], changed["description"]) == ("c", "d")
    policy = changed["subscriptionPolicy"]
    assert (policy["rate"], policy["inflightSize"]) == (7, 3)


async def test_the_owner_can_be_changed_in_either_form(
    api: httpx.AsyncClient, subscription: str
) -> None:
    answer = (await api.put(subscription, json={"supportTeam": "New"})).json()
    assert answer["owner"] == {"source": "Plaintext", "id": "New"}
    answer = (await api.put(subscription, json={"owner": {"id": "Newer"}})).json()
    assert answer["supportTeam"] == "Newer"
    both = {"supportTeam": "One", "owner": {"id": "Another"}}
    assert (await api.put(subscription, json=both)).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_is_suspended_and_activated_by_a_json_string(
    api: httpx.AsyncClient, subscription: str, method: str
) -> None:
    for state in ("SUSPENDED", "ACTIVE"):
        answer = await api.request(method, f"{subscription}/state", json=state)
        assert answer.status_code == 200
        assert (await api.get(f"{subscription}/state")).json() == state
        assert (await api.get(subscription)).json()["state"] == state


async def test_pending_sent_by_a_client_changes_nothing(
    api: httpx.AsyncClient, subscription: str
) -> None:
    await api.put(f"{subscription}/state", json="SUSPENDED")
    await api.put(f"{subscription}/state", json="PENDING")
    await api.put(subscription, json={"state": "PENDING"})
    assert (await api.get(f"{subscription}/state")).json() == "SUSPENDED"


async def test_is_pending_until_a_worker_has_taken_it_up(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    assert (await api.get(f"{subscription}/state")).json() == "PENDING"
    await beat(database, await last_change(database))
    assert (await api.get(f"{subscription}/state")).json() == "ACTIVE"


async def test_stays_active_while_the_worker_that_took_it_up_pauses_and_when_it_has_ended(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    async def states() -> set[str]:
        query = {"query": {"name": "billing"}}
        [found] = (await api.post("/query/subscriptions", json=query)).json()
        return {
            (await api.get(f"{subscription}/state")).json(),
            (await api.get(subscription)).json()["state"],
            found["state"],
        }

    await beat(database, await last_change(database))
    async with database.transaction() as session:
        # As by a pause of a minute: nobody heard of it meanwhile.
        await session.execute(text("UPDATE workers SET seen_at = now() - interval '1 minute'"))
    assert await states() == {"ACTIVE"}
    async with database.transaction() as session:
        await WorkerRepository(session).remove("w1")
    assert await states() == {"ACTIVE"}
    await beat(database, 0, "w-new")
    assert await states() == {"ACTIVE"}


async def test_says_that_no_worker_has_applied_a_change(
    api: httpx.AsyncClient, subscription: str
) -> None:
    answer = await api.put(f"{subscription}/state", json="SUSPENDED")
    assert answer.headers["Angelia-Applied"] == "false"


async def test_waits_until_every_live_worker_has_applied_a_change(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    async def applied(state: str) -> bool:
        """What is said of a change that w1 applies first, and then w2."""
        before = await last_change(database)
        for worker in ("w1", "w2"):
            await beat(database, before, worker)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(api.put(f"{subscription}/state", json=state))
            while (now := await last_change(database)) == before:
                pass
            await beat(database, now, "w1")
            assert not asked.done() or asked.result().headers["Angelia-Applied"] == "false"
            await beat(database, now, "w2")
        return asked.result().headers["Angelia-Applied"] == "true"

    # It waits two seconds for them. A busy machine may take longer.
    states = itertools.cycle(["SUSPENDED", "ACTIVE"])
    async with asyncio.timeout(PATIENCE_S):
        while not await applied(next(states)):
            pass


async def test_waits_two_seconds_and_not_for_ever(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    await beat(database, 0)
    answer = await api.delete(subscription)
    assert (answer.status_code, answer.headers["Angelia-Applied"]) == (200, "false")
    assert answer.elapsed.total_seconds() > 1.5


async def test_a_deleted_subscription_is_gone_with_its_offsets(
    api: httpx.AsyncClient, topic: str, subscription: str, log: MemoryLog
) -> None:
    assert (await api.delete(subscription)).status_code == 200
    gone = await api.get(subscription)
    assert (gone.status_code, gone.json()["code"]) == (400, "SUBSCRIPTION_NOT_EXISTS")
    assert (await api.get(f"/topics/{topic}/subscriptions")).json() == []
    assert not log.commits[f"{topic}_billing"]


async def test_can_be_deleted_while_the_log_is_down(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog
) -> None:
    log.go_down()
    assert (await api.delete(subscription)).status_code == 200
    assert (await api.get(subscription)).status_code == 400


async def test_names_what_it_ignored_and_refuses_it_when_asked_to_be_strict(
    api: httpx.AsyncClient, subscription: str
) -> None:
    patch = {"color": "red", "profilingEnabled": True, "subscriptionPolicy": {"maxRetry": 9}}
    ignored = await api.put(subscription, json=patch)
    names = {"color", "profilingEnabled", "subscriptionPolicy.maxRetry"}
    assert ignored.headers["Angelia-Ignored-Fields"].split(", ") == [
        "color",
        "profilingEnabled",
        "subscriptionPolicy.maxRetry; did-you-mean=maxRetries",
    ]
    refused = await api.put(subscription, json=patch, headers=STRICT)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert {item["path"] for item in refused.json()["details"]} == names


async def test_a_change_can_be_tried_without_being_made(
    api: httpx.AsyncClient, subscription: str
) -> None:
    before = (await api.get(subscription)).text
    change = {"subscriptionPolicy": {"rate": 17}}
    for send in (api.put, api.patch):
        tried = await send(f"{subscription}?dryRun=true", json=change)
        assert tried.status_code == 200
        assert tried.json()["subscriptionPolicy"]["rate"] == 17
    assert (await api.get(subscription)).text == before
    wrong = await api.put(f"{subscription}?dryRun=true", json={"deadLetter": {"topic": "no.such"}})
    assert [each["path"] for each in wrong.json()["details"]] == ["deadLetter.topic"]
