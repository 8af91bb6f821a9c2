"""Health, forecasts and alerts by REST."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.domain.catalogue.monitoring import Monitoring, Severity
from app.domain.catalogue.subscription import State
from app.domain.commit import Progress
from app.domain.owner import Owner
from app.domain.status import AttemptCounts
from app.log.interface import Committed
from app.main import create_app
from tests.cases import for_each
from tests.fakes.keys import KEY
from tests.integration.api.server import given, serving
from tests.integration.health.watched import FAILING, Watched, at_start
from tests.integration.storage.builders import TOPIC, a_subscription

PATH = f"/topics/{TOPIC}/subscriptions/billing"
ALL = {"respectMonitoringSeverity": "false"}
AHEAD = ("oldestUnfinishedAge", "drainSeconds", "expiring")


@pytest.fixture
async def api(watched: Watched, postgres_url: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(secret_key=SecretStr(KEY), auth="off", health_interval=300)
    app = create_app(settings, database_url=postgres_url, log=given(watched.log))
    async with serving(app) as client:
        yield client


async def got(api: httpx.AsyncClient, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON
    response = await api.get(path, params=query)
    response.raise_for_status()
    return response.json()


async def test_before_anybody_looked_there_is_no_data(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    await watched.subscription()
    assert await got(api, f"{PATH}/health") == {"status": "NO_DATA", "problems": []}
    names = {"topicName": TOPIC, "subscriptionName": "billing"}
    assert await got(api, f"{PATH}/forecast") == names
    assert await got(api, "/unhealthy") == []
    assert await got(api, "/alerts") == []


async def test_health_is_as_in_hermes(api: httpx.AsyncClient, watched: Watched) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await monitor.look()
    assert await got(api, f"{PATH}/health") == {"status": "HEALTHY", "problems": []}
    await watched.report(subscription, counts=FAILING)
    await monitor.look()
    problem = {
        "code": "MALFUNCTIONING",
        "description": "10 of 10.2 attempts a second are answered 5xx",
    }
    assert await got(api, f"{PATH}/health") == {"status": "UNHEALTHY", "problems": [problem]}
    listed = {"name": "billing", "topicName": TOPIC, "severity": "NON_IMPORTANT"}
    assert await got(api, "/unhealthy", **ALL) == [listed | {"problems": [problem]}]
    assert await got(api, "/unhealthy") == []


@pytest.fixture
async def two_unhealthy(watched: Watched) -> None:
    """The subscriptions billing, and audit, which is important and has another owner."""
    severe = Monitoring(severity=Severity.IMPORTANT)
    audit = a_subscription("audit", owner=Owner(id="Audit"), monitoring=severe)
    for subscription in (await watched.subscription(), await watched.add(audit)):
        await watched.report(subscription, counts=FAILING)
    await watched.monitor().look()


@pytest.mark.usefixtures("two_unhealthy")
@for_each(
    ("query", "found"),
    [
        # As in Hermes: what does not matter to its owners is left out unless it is asked for.
        ({}, ["audit"]),
        ({"respectMonitoringSeverity": "false"}, ["audit", "billing"]),
        ({"ownerSourceName": "Plaintext", "ownerId": "Audit"}, ["audit"]),
        ({"ownerSourceName": "Elsewhere", "ownerId": "Audit"}, []),
        (ALL | {"subscriptionNames": ["billing", "unknown"]}, ["billing"]),
        (ALL | {"qualifiedTopicNames": [TOPIC]}, ["audit", "billing"]),
        ({"qualifiedTopicNames": ["shop.others"]}, []),
        ({"respectMonitoringSeverity": "true"}, ["audit"]),
        ({"respectMonitoringSeverity": "true", "subscriptionNames": ["billing"]}, []),
    ],
)
async def test_unhealthy_subscriptions_are_found_by_what_they_are(
    api: httpx.AsyncClient, query: dict[str, Any], found: list[str]
) -> None:
    assert [each["name"] for each in await got(api, "/unhealthy", **query)] == found


async def test_unhealthy_subscriptions_are_listed_as_text_too(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    subscription = await watched.subscription()
    await watched.report(subscription, counts=AttemptCounts(timeouts=300, codes_5xx=300))
    await watched.monitor().look()
    response = await api.get("/unhealthy", params=ALL, headers={"Accept": "text/plain"})
    assert response.headers["Content-Type"].startswith("text/plain")
    assert response.text == (
        "billing - 5 of 10 attempts a second time out; 5 of 10 attempts a second are answered 5xx"
    )


async def test_a_forecast_says_what_will_be_lost_and_when(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    subscription = await watched.subscription()
    await watched.published(TOPIC, 80, ago=timedelta(hours=1))
    await watched.set_state(subscription, State.SUSPENDED, "The endpoint answered 410")
    await watched.monitor().look()
    forecast = await got(api, f"{PATH}/forecast")
    assert forecast["lag"] == 80
    assert forecast["lagSeconds"] == pytest.approx(3600, rel=0.4)
    assert forecast["outputRate"] == 0
    assert "drainSeconds" not in forecast
    (loss,) = forecast["losses"]
    assert (loss["cause"], loss["messages"]) == ("RETENTION", pytest.approx(80, abs=1))
    assert loss["at"] > forecast["asOf"]


async def ahead(api: httpx.AsyncClient) -> list[Any]:
    metrics = await got(api, f"{PATH}/metrics")
    return [metrics.get(name) for name in AHEAD]


async def test_metrics_say_what_lies_before_a_subscription(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    subscription = await watched.subscription()
    ttl = {"subscriptionPolicy": {"publishTtl": 7200}}
    (await api.put(PATH, json=ttl)).raise_for_status()
    assert await ahead(api) == [None, None, None]
    await watched.published(TOPIC, 80, ago=timedelta(hours=1))
    await watched.set_state(subscription, State.SUSPENDED)
    await watched.monitor().look()
    forecast = await got(api, f"{PATH}/forecast")
    expired = sum(each["messages"] for each in forecast["losses"] if each["cause"] == "PUBLISH_TTL")
    assert expired == pytest.approx(80, abs=1)
    assert await ahead(api) == [forecast["lagSeconds"], None, expired]


async def test_a_message_that_is_tried_for_long_is_unfinished_for_that_long(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    subscription = await watched.subscription()
    await watched.monitor().look()
    assert await ahead(api) == [0, 0, 0]
    await watched.published(TOPIC, 1, ago=timedelta(hours=1))
    (taken,) = [
        part
        for part, each in (await watched.log.bounds(await watched.log.partitions(TOPIC))).items()
        if each.end
    ]
    since = datetime.now(UTC) - timedelta(minutes=30)
    progress = Progress(
        subscription_id=subscription.id, offset=0, oldest_opened_ms=int(since.timestamp() * 1000)
    )
    await watched.log.commit({subscription.group: {taken: Committed(0, progress.metadata())}})
    await watched.report(subscription, at_start(subscription, taken.index, position=1))
    age, *_ = await ahead(api)
    assert age == pytest.approx(1800, abs=60)


async def test_alerts_are_listed_while_they_are_so_and_afterwards_if_asked_for(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await watched.set_state(subscription, State.SUSPENDED, "The endpoint answered 410")
    await monitor.look()
    (alert,) = await got(api, "/alerts")
    assert alert["kind"] == "SUSPENDED"
    assert alert["details"] == {"reason": "The endpoint answered 410"}
    assert "clearedAt" not in alert
    await watched.set_state(subscription, State.ACTIVE)
    await monitor.look()
    assert await got(api, "/alerts") == []
    (over,) = await got(api, "/alerts", active="false", limit="1")
    assert over["id"] == alert["id"]
    assert over["clearedAt"] >= over["raisedAt"]


async def test_whoever_wants_alerts_subscribes_before_there_are_any(
    api: httpx.AsyncClient, watched: Watched
) -> None:
    body = {"name": "pager", "endpoint": "http://pager.test/", "supportTeam": "Ops"}
    made = await api.post("/topics/angelia.alerts/subscriptions", json=body)
    assert made.status_code == httpx.codes.CREATED
    subscription = await watched.subscription()
    await watched.set_state(subscription, State.SUSPENDED, "The endpoint answered 410")
    await watched.monitor().look()
    assert watched.told() == [("SUSPENDED", "RAISED")]


@pytest.mark.parametrize(
    "query", [{"subscriptionNames": "a\0b"}, {"ownerId": "\0"}, {"respectMonitoringSeverity": "x"}]
)
async def test_questions_that_make_no_sense_are_refused(
    api: httpx.AsyncClient, query: dict[str, str]
) -> None:
    response = await api.get("/unhealthy", params=query)
    assert response.status_code == httpx.codes.BAD_REQUEST
    assert response.json()["code"] == "VALIDATION_ERROR"


async def test_what_does_not_exist_has_no_health(api: httpx.AsyncClient) -> None:
    for path in (f"{PATH}/health", f"{PATH}/forecast"):
        assert (await api.get(path)).status_code == httpx.codes.NOT_FOUND
