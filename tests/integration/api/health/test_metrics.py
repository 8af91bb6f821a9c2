"""What an API process shows to collectors, beside what was done and what its JSON says."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from app.composition import Part
from app.config import Settings
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import CircuitReading, CircuitState
from app.domain.health.forecast import Loss, LossCause
from app.domain.health.indicators import Indicator, Problem
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.status import (
    AttemptCounts,
    CursorStatus,
    Output,
    RateMode,
    SubscriptionLoad,
)
from app.main import create_app
from app.metrics.name_cap import OTHER
from app.metrics.publish_counts import UNKNOWN
from app.services.health.monitor import LEASE
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.subscription_health import SubscriptionHealthRepository
from app.storage.runtime.leases import LeaseRepository
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.fakes.scraping import Scrape, scraped
from tests.integration.api.guarded import guarded
from tests.integration.api.server import given, serving
from tests.integration.storage import builders
from tests.integration.storage.builders import add_entry

HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OF = "angelia_subscription_"
FRONTEND = "hermes_frontend_topic_"


@pytest.fixture
async def stored(topic: str, subscription: str, database: Database) -> Subscription:
    assert subscription.endswith("/billing")
    async with database.transaction() as session:
        return await SubscriptionRepository(session).get(topic, "billing")


def a_cursor(stored: Subscription, partition: int, **numbers: int) -> CursorStatus:
    counted = {"offset": 2, "end": 5, "delivered": 10, "discarded": 1, "filtered": 4, "volume": 99}
    return CursorStatus(
        subscription_id=stored.id,
        topic=stored.topic,
        partition=partition,
        worker_id="w",
        **(counted | numbers),
    )


def a_load(stored: Subscription, worker: str, output: Output) -> SubscriptionLoad:
    return SubscriptionLoad(
        subscription_id=stored.id,
        worker_id=worker,
        window=timedelta(seconds=60),
        in_flight=3,
        waiting_retries=2,
        counts=AttemptCounts(),
        output=output,
    )


async def report(
    database: Database,
    cursors: Sequence[CursorStatus] = (),
    loads: Sequence[SubscriptionLoad] = (),
) -> None:
    await builders.report(database, *loads, cursors=cursors)


async def look(
    database: Database, stored: Subscription, subscription_health: SubscriptionHealth
) -> None:
    """As if a process had looked at how it does a moment ago, and no other did soon."""
    async with database.transaction() as session:
        await session.execute(text("DELETE FROM leases"))
        assert await LeaseRepository(session).take(LEASE, "tests", HOUR)
        await SubscriptionHealthRepository(session).write({stored.id: subscription_health})


@asynccontextmanager
async def an_api(
    postgres_url: str, *, only: Part = "all", names_max: int = 1_000
) -> AsyncIterator[httpx.AsyncClient]:
    """Another process on the same database, with a log of its own."""
    settings = Settings(secret_key=SecretStr(KEY), metrics_names_max=names_max)
    app = create_app(settings, database_url=postgres_url, only=only, log=given(MemoryLog()))
    async with serving(app) as client:
        yield client


async def test_publishing_is_counted_by_topic_answer_and_size(
    api: httpx.AsyncClient, topic: str
) -> None:
    for body in (b"1", b"22", b"1".ljust(3000)):
        await api.post(f"/topics/{topic}", content=body)
    await api.post(f"/topics/{topic}/batch", json=[1, 2, 3])
    await api.post("/topics/no.such", content=b"1")
    read = await scraped(api)
    of_topic = {"group": "shop", "topic": "orders"}
    assert read.value(f"{FRONTEND}requests_total", **of_topic) == 4
    assert read.by(f"{FRONTEND}http_status_codes_total", "status_code", **of_topic) == {
        "201": 3,
        "413": 1,
    }
    assert read.value(f"{FRONTEND}published_total", **of_topic) == 5
    assert read.value(f"{FRONTEND}throughput_bytes_total", **of_topic) == 6
    assert read.value(f"{FRONTEND}requests_total", group=UNKNOWN[0]) == 1


async def test_how_long_messages_took_to_store_is_shown_by_their_acknowledgement(
    api: httpx.AsyncClient, topic: str
) -> None:
    (await api.post("/topics", json={"name": "shop.all", "ack": "ALL"})).raise_for_status()
    (await api.put(f"/topics/{topic}", json={"ack": "LEADER"})).raise_for_status()
    began = time.monotonic()
    for name in (topic, topic, "shop.all"):
        await api.post(f"/topics/{name}", content=b"1")
    took = time.monotonic() - began
    read = await scraped(api)
    assert read.value(f"{FRONTEND}ack_leader_latency_seconds_count", topic="orders") == 2
    assert read.value(f"{FRONTEND}ack_all_latency_seconds_count", topic="all") == 1
    assert read.value(f"{FRONTEND}ack_all_latency_seconds_bucket", le="+Inf") == 1
    assert 0 < read.value(f"{FRONTEND}ack_all_latency_seconds_sum") <= took


async def test_life_counts_are_those_of_the_json(
    api: httpx.AsyncClient,
    subscription: str,
    stored: Subscription,
    database: Database,
) -> None:
    await report(database, [a_cursor(stored, 0), a_cursor(stored, 1, delivered=5)])
    read, said = await scraped(api), (await api.get(f"{subscription}/metrics")).json()
    shown = {
        "delivered": "delivered_total",
        "discarded": "discarded_total",
        "filtered": "filtered_total",
        "volume": "delivered_bytes_total",
    }
    for field, name in shown.items():
        value = read.value(OF + name, group="shop", topic="orders", subscription="billing")
        assert value == said[field] > 0


async def test_lag_is_to_the_ends_that_the_log_has_now(
    api: httpx.AsyncClient, topic: str, subscription: str, stored: Subscription, database: Database
) -> None:
    for _ in range(20):
        await api.post(f"/topics/{topic}", content=b"1")
    await report(database, [a_cursor(stored, 0, offset=0), a_cursor(stored, 1, offset=0)])
    read = await scraped(api)
    assert read.value(f"{OF}lag_messages") == 20
    assert read.value("angelia_topic_published_total", group="shop", topic="orders") == 20
    assert (await api.get(f"{subscription}/metrics")).json()["lag"] == 20


async def test_what_workers_do_now_is_summed_up_and_the_worst_of_their_states_shown(
    api: httpx.AsyncClient, stored: Subscription, database: Database
) -> None:
    opened = CircuitReading(state=CircuitState.OPEN, since=NOON, reason="it fails")
    loads = [
        a_load(stored, "w-1", Output(rate=10, mode=RateMode.NORMAL)),
        a_load(stored, "w-2", Output(rate=0.5, mode=RateMode.HEARTBEAT, circuit=opened)),
    ]
    await report(database, loads=loads)
    await builders.beat(database, builders.a_worker("w-1"))
    read = await scraped(api)
    shown = ("inflight_requests", "parked_messages", "output_rate", "mode", "circuit", "suspended")
    assert [read.value(OF + name) for name in shown] == [6, 4, 10.5, 2, 2, 0]
    assert read.value("angelia_workers") == 1


async def test_a_subscription_that_no_worker_delivers_to_has_no_mode(
    api: httpx.AsyncClient, stored: Subscription, database: Database
) -> None:
    await report(database, [a_cursor(stored, 0)])
    read = await scraped(api)
    assert [read.named(OF + name) for name in ("mode", "circuit", "output_rate")] == [[], [], []]
    assert read.named(f"{OF}inflight_requests") == [0]


async def test_how_it_does_and_what_it_will_lose_is_that_of_the_last_look(
    api: httpx.AsyncClient, stored: Subscription, database: Database
) -> None:
    loss = Loss(cause=LossCause.RETENTION, at=datetime.now(UTC) + HOUR, messages=7, rate=5.0)
    problem = Problem(code=Indicator.LAGGING, description="it lags")
    subscription_health = SubscriptionHealth(
        lag=9, lag_time=timedelta(seconds=90), drain=None, losses=(loss,), problems=(problem,)
    )
    await look(database, stored, subscription_health)
    read = await scraped(api)
    assert [read.value(OF + name) for name in ("unhealthy", "lag_seconds")] == [1, 90]
    assert read.value(f"{OF}loss_seconds") == pytest.approx(3600, abs=60)
    assert read.named(f"{OF}drain_seconds") == []


async def test_what_goes_well_drains_and_loses_nothing(
    postgres_url: str, stored: Subscription, database: Database
) -> None:
    await look(database, stored, SubscriptionHealth(drain=timedelta(seconds=4)))
    async with an_api(postgres_url) as api:
        read = await scraped(api)
    assert [read.named(OF + name) for name in ("unhealthy", "lag_seconds")] == [[0], [0]]
    assert [read.named(OF + name) for name in ("drain_seconds", "loss_seconds")] == [[4], []]


async def test_messages_that_its_last_ledger_entry_misses_are_shown(
    postgres_url: str, stored: Subscription, database: Database
) -> None:
    read = []
    for number, missing in enumerate((7, 3, 0), 1):
        await add_entry(database, stored, number=number, missing=missing)
        async with an_api(postgres_url) as api:
            read.append((await scraped(api)).named(f"{OF}missing_messages"))
    assert read == [[7], [3], []]


async def test_a_suspended_one_is_shown_to_be(api: httpx.AsyncClient, subscription: str) -> None:
    (await api.put(f"{subscription}/state", json="SUSPENDED")).raise_for_status()
    assert (await scraped(api)).value(f"{OF}suspended", subscription="billing") == 1


async def test_beyond_the_cap_subscriptions_and_topics_are_summed_up(
    postgres_url: str, stored: Subscription, database: Database
) -> None:
    await report(database, [a_cursor(stored, 0)])
    async with an_api(postgres_url, names_max=0) as api:
        read = await scraped(api)
    assert read.by(f"{OF}delivered_total", "subscription") == {OTHER: 10}


async def test_while_the_database_is_gone_the_process_is_shown_all_the_same(
    api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    await api.post(f"/topics/{topic}", content=b"1")
    async with database.transaction() as session:
        await session.execute(text("ALTER TABLE subscriptions RENAME TO gone"))
    read = await scraped(api)
    assert read.value("angelia_part_up", part="database") == 0
    assert read.value("angelia_part_up", part="log") == 1
    assert read.value(f"{FRONTEND}published_total") == 1
    assert read.named(f"{OF}delivered_total") == []


async def test_while_the_log_is_gone_lag_is_as_workers_saw_it_last(
    api: httpx.AsyncClient, stored: Subscription, database: Database, log: MemoryLog
) -> None:
    await report(database, [a_cursor(stored, 0)])
    log.go_down()
    read = await scraped(api)
    assert read.value("angelia_part_up", part="log") == 0
    assert read.value(f"{OF}lag_messages") == 3


async def test_a_process_that_only_publishes_shows_only_itself(postgres_url: str) -> None:
    async with an_api(postgres_url, only="publish") as api:
        read = await scraped(api, "/status/prometheus")
    assert read.value("angelia_build_info") == 1
    assert read.named("angelia_workers") == []


async def test_where_keys_are_needed_any_key_is_enough(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        assert (await api.http.get("/metrics")).status_code == 401
        key = await api.key("read")
        assert (await api.http.get("/metrics", headers=key)).status_code == 200


async def test_both_paths_show_the_same_metrics(api: httpx.AsyncClient, topic: str) -> None:
    assert topic
    reads: list[Scrape] = [await scraped(api, path) for path in ("/metrics", "/status/prometheus")]
    assert reads[0].samples.keys() == reads[1].samples.keys()
