"""What operators say and see: workload constraints, readiness."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from app.config import Settings
from app.domain.catalogue.topic import Ack, Topic
from app.domain.durability import Copies, Replication
from app.log.interface import Throttling
from app.main import create_app
from app.services.durability import LOOK_AGAIN, LOOK_EVERY, DurabilityService
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import open_database
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.api.slow_answers import readiness

SUBSCRIPTION = "shop.orders$billing"
FOUR = {"consumersNumber": 4, "reason": "much traffic"}
ONE = {"consumersNumber": 1}


async def put(api: httpx.AsyncClient, name: str, constraints: object) -> httpx.Response:
    kind = "subscription" if "$" in name else "topic"
    body = {f"{kind}Name": name, "constraints": constraints}
    return await api.put(f"/workload-constraints/{kind}", json=body)


@pytest.mark.usefixtures("subscription")
async def test_workload_constraints_are_kept_until_they_or_what_they_are_of_go(
    api: httpx.AsyncClient,
) -> None:
    nothing: dict[str, Any] = {"topicConstraints": {}, "subscriptionConstraints": {}}
    assert (await api.get("/workload-constraints")).json() == nothing
    made = [await put(api, name, FOUR) for name in ("shop.orders", SUBSCRIPTION)]
    assert [each.status_code for each in made] == [201, 201]
    assert (await put(api, "shop.orders", ONE)).status_code == 200
    assert (await api.get("/workload-constraints")).json() == {
        "topicConstraints": {"shop.orders": ONE},
        "subscriptionConstraints": {SUBSCRIPTION: FOUR},
    }
    of_topic = "/workload-constraints/topic/shop.orders"
    of_subscription = "/workload-constraints/subscription/shop.orders/billing"
    assert (await api.delete(of_topic)).status_code == 200
    gone = await api.delete(of_topic)
    assert (gone.status_code, gone.json()["code"]) == (400, "TOPIC_CONSTRAINTS_DO_NOT_EXIST")
    await put(api, "shop.orders", ONE)
    await api.delete("/topics/shop.orders/subscriptions/billing")
    gone = await api.delete(of_subscription)
    assert (gone.status_code, gone.json()["code"]) == (400, "SUBSCRIPTION_CONSTRAINTS_DO_NOT_EXIST")
    await api.delete("/topics/shop.orders")
    assert (await api.get("/workload-constraints")).json() == nothing
    events = (await api.get("/audit?kind=workloadConstraints")).json()
    actions = [(each["action"], each["name"]) for each in reversed(events)]
    assert actions[:4] == [
        ("CREATED", "shop.orders"),
        ("CREATED", "shop.orders/billing"),
        ("UPDATED", "shop.orders"),
        ("REMOVED", "shop.orders"),
    ]


async def test_a_reason_that_is_too_long_has_too_many_characters(
    api: httpx.AsyncClient, topic: str
) -> None:
    refused = await put(api, topic, {"consumersNumber": 1, "reason": "x" * 1025})
    assert refused.status_code == 400
    [problem] = refused.json()["details"]
    assert problem["message"] == "must have at most 1024 characters"


@pytest.mark.usefixtures("subscription")
async def test_constraints_that_cannot_be_are_refused(api: httpx.AsyncClient) -> None:
    for name, constraints, status, code in (
        ("shop.none", ONE, 404, "TOPIC_NOT_EXISTS"),
        ("shop.none$billing", ONE, 404, "TOPIC_NOT_EXISTS"),
        ("shop.orders$none", ONE, 400, "SUBSCRIPTION_NOT_EXISTS"),
        ("$billing", ONE, 400, "VALIDATION_ERROR"),
        ("shop.orders", {"consumersNumber": 0}, 400, "VALIDATION_ERROR"),
        ("shop.orders", {"consumersNumber": "1"}, 400, "VALIDATION_ERROR"),
        ("shop.orders", {"consumersNumber": 1, "reason": "x" * 1025}, 400, "VALIDATION_ERROR"),
        ("shop.orders", None, 400, "VALIDATION_ERROR"),
    ):
        refused = await put(api, name, constraints)
        assert (refused.status_code, refused.json()["code"]) == (status, code), (name, constraints)
    ignored = await put(api, "shop.orders", ONE | {"x": 1})
    names = "constraints.consumersNumber, constraints.x"
    assert ignored.headers["Angelia-Ignored-Fields"] == names


@pytest.mark.parametrize("name", ["shop.\0", "shop.orders$\0", "shop.orders\0$billing"])
async def test_a_zero_character_in_a_name_is_a_problem_of_its_field(
    api: httpx.AsyncClient, name: str
) -> None:
    refused = await put(api, name, ONE)
    assert refused.status_code == 400
    [problem] = refused.json()["details"]
    assert problem["path"] == ("subscriptionName" if "$" in name else "topicName")
    assert "zero" in problem["message"]


@pytest.mark.usefixtures("subscription")
@pytest.mark.parametrize("name", ["shop.orders", SUBSCRIPTION])
async def test_whoever_sets_constraints_is_told_that_they_have_no_effect(
    api: httpx.AsyncClient, name: str
) -> None:
    kept = await put(api, name, FOUR)
    assert kept.headers["Angelia-Ignored-Fields"] == "constraints.consumersNumber"
    api.headers["Prefer"] = "handling=strict"
    refused = await put(api, name, ONE)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    [problem] = refused.json()["details"]
    assert problem["path"] == "constraints.consumersNumber"
    del api.headers["Prefer"]
    kept = (await api.get("/workload-constraints")).json()
    assert {**kept["topicConstraints"], **kept["subscriptionConstraints"]} == {name: FOUR}


async def test_a_data_centre_that_is_taken_out_of_service_is_not_ready(
    api: httpx.AsyncClient,
) -> None:
    path = "/readiness/datacenters"
    assert (await api.get(path)).json() == [{"datacenter": "primary", "status": "READY"}]
    taken = await api.post(f"{path}/primary", json={"isReady": False})
    assert (taken.status_code, taken.content) == (202, b"")
    assert (await api.get(path)).json() == [{"datacenter": "primary", "status": "NOT_READY"}]
    ready = await readiness(api, is_ready=False)
    assert (ready.status_code, ready.json()["parts"]["datacenter"]) == (503, False)
    assert (await api.get("/status/health")).status_code == 200
    await api.post(f"{path}/primary-dc", json={"isReady": True})
    await readiness(api, is_ready=True)
    for name, body, status, code in (
        ("elsewhere", {"isReady": False}, 404, "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION"),
        ("primary-dc", {"isReady": "no"}, 400, "VALIDATION_ERROR"),
        ("primary-dc", {}, 400, "VALIDATION_ERROR"),
    ):
        refused = await api.post(f"{path}/{name}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
    [event, *_] = (await api.get("/audit?kind=datacenter")).json()
    assert (event["before"], event["after"]) == ({"isReady": False}, {"isReady": True})


class CountingLog(MemoryLog):
    """Counts how often it was asked for all topics."""

    asked = 0

    async def copies(self) -> Mapping[str, Copies]:
        self.asked += 1
        return await super().copies()


async def test_health_says_where_acknowledged_messages_can_be_lost(
    postgres_url: str, settings: Settings
) -> None:
    on_kafka = settings.model_copy(
        update={"kafka_bootstrap": "kafka.test:9092", "replication_factor": 3, "auth": "off"}
    )
    log = MemoryLog()
    log.copied = {"shop.safe": Copies(1), "angelia.traces": Copies(3, 2), "others": Copies(1)}
    app = create_app(on_kafka, database_url=postgres_url, log=given(log))
    asked = {"Accept": "application/json"}
    async with serving(app) as api:
        assert (await api.get("/status/health")).text == "UP"
        for name, ack in (("shop.safe", "ALL"), ("shop.fast", "LEADER")):
            (await api.post("/topics", json={"name": name, "ack": ack})).raise_for_status()
        healthy = await api.get("/status/health", headers=asked)
        by_leader, single = healthy.json()["mayLose"]
        assert by_leader.startswith("1 topics have ack LEADER")
        # Of ours: others may use the same Kafka.
        assert single.startswith("1 of 2 topics in Kafka have one replica")
        assert "shop." not in healthy.text


async def test_where_nothing_can_be_lost_health_says_so(
    postgres_url: str, settings: Settings
) -> None:
    on_kafka = settings.model_copy(
        update={"kafka_bootstrap": "kafka.test:9092", "replication_factor": 3, "auth": "off"}
    )
    app = create_app(on_kafka, database_url=postgres_url, log=given(MemoryLog()))
    async with serving(app) as api:
        answer = await api.get("/status/health", headers={"Accept": "application/json"})
    assert answer.json() == {"status": "UP", "mayLose": [], "throttled": []}


async def test_health_says_which_brokers_throttle_this_process(
    postgres_url: str, settings: Settings
) -> None:
    log = MemoryLog()
    log.stats.throttles[3] = Throttling(2.5, time.monotonic())
    open_settings = settings.model_copy(update={"auth": "off"})
    async with serving(create_app(open_settings, database_url=postgres_url, log=given(log))) as api:
        answer = await api.get("/status/health", headers={"Accept": "application/json"})
    (line,) = answer.json()["throttled"]
    assert line.startswith("broker 3 throttles this process: a quota of Kafka is used up")


async def test_the_database_is_asked_for_all_topics_now_and_then_however_often_health_is(
    postgres_url: str,
) -> None:
    now = 0.0
    async with open_database(postgres_url) as database:
        service = DurabilityService(database, Replication(3), MemoryLog(), clock=lambda: now)
        assert await service.risks(with_names=True) == ()
        async with database.transaction() as session:
            await GroupRepository(session).add("shop")
            await TopicRepository(session).add(Topic(name="shop.fast", ack=Ack.LEADER))
        assert await service.risks(with_names=True) == ()
        now += LOOK_EVERY.total_seconds()
        (by_leader,) = await service.risks(with_names=True)
        assert by_leader.endswith(": shop.fast")
        (by_leader,) = await service.risks(with_names=False)
        assert "shop." not in by_leader


async def test_the_log_is_asked_for_all_topics_now_and_then_however_often_health_is(
    postgres_url: str,
) -> None:
    log, now = CountingLog(), 0.0
    log.copied = {"angelia.traces": Copies(1)}
    async with open_database(postgres_url) as database:
        service = DurabilityService(database, Replication(3), log, clock=lambda: now)
        for _ in range(3):
            found = await asyncio.gather(*(service.risks(with_names=True) for _ in range(5)))
        assert {len(each) for each in found} == {1}
        assert log.asked == 1
        now += LOOK_EVERY.total_seconds()
        log.go_down()
        (unknown,) = await service.risks(with_names=True)
        assert unknown.startswith("how many replicas topics have is not known: ")
        log.come_back()
        now += LOOK_AGAIN.total_seconds()
        assert await service.risks(with_names=True) == found[0]
        assert log.asked == 3
