"""One watch at a time looks at all subscriptions, and writes down how each one does."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.domain.catalogue.subscription import State
from app.domain.circuit import CircuitReading, CircuitState
from app.domain.commit import Progress
from app.domain.errors import LogUnavailableError
from app.domain.health.forecast import LossCause
from app.domain.health.indicators import Health, Indicator
from app.domain.status import AttemptCounts, Output
from app.log.interface import Committed
from app.services.health.subscription_health import HealthService, RecordedHealth
from app.storage.database import Database
from app.storage.health.subscription_health import HealthQuery
from tests.integration.health.watched import FAILING, Watched, at_start
from tests.integration.storage.builders import NOON, TOPIC

HOUR = timedelta(hours=1)


async def looked_up(database: Database, name: str = "billing") -> RecordedHealth:
    return await HealthService(database).subscription(TOPIC, name)


async def test_nothing_is_known_of_what_nobody_has_looked_at(watched: Watched) -> None:
    await watched.subscription()
    look = await looked_up(watched.database)
    assert (look.health, look.subscription_health, look.at) == (Health.NO_DATA, None, None)


async def test_a_subscription_that_does_nothing_is_healthy(watched: Watched) -> None:
    await watched.subscription()
    await watched.monitor().look()
    look = await looked_up(watched.database)
    assert look.health is Health.HEALTHY
    assert look.subscription_health is not None
    assert look.subscription_health.lag == 0


async def test_one_that_fails_is_unhealthy_until_it_is_suspended(watched: Watched) -> None:
    subscription = await watched.subscription()
    await watched.report(subscription, counts=FAILING)
    monitor = watched.monitor()
    await monitor.look()
    look = await looked_up(watched.database)
    assert look.health is Health.UNHEALTHY
    assert [problem.code for problem in look.problems] == [Indicator.MALFUNCTIONING]
    service = HealthService(watched.database)
    assert [each.name for each in await service.unhealthy(HealthQuery())] == ["billing"]
    await watched.set_state(subscription, State.SUSPENDED)
    look = await looked_up(watched.database)
    assert (look.health, look.problems) == (Health.HEALTHY, ())
    assert await service.unhealthy(HealthQuery()) == []


async def test_what_a_watch_wrote_long_ago_is_not_known_any_more(watched: Watched) -> None:
    await watched.subscription()
    await watched.monitor().look()
    async with watched.database.transaction() as session:
        await session.execute(text("UPDATE leases SET renewed_at = now() - interval '1 hour'"))
    assert (await looked_up(watched.database)).health is Health.NO_DATA


async def test_messages_that_wait_since_before_the_first_look_are_as_old_as_the_log_says(
    watched: Watched,
) -> None:
    subscription = await watched.subscription()
    await watched.published(TOPIC, 800, ago=HOUR)
    cursors = [at_start(subscription, partition) for partition in range(8)]
    await watched.report(subscription, *cursors, counts=AttemptCounts())
    await watched.monitor().look()
    subscription_health = (await looked_up(watched.database)).subscription_health
    assert subscription_health is not None
    assert subscription_health.lag == 800
    assert subscription_health.lag_time.total_seconds() == pytest.approx(3600, rel=0.4)
    assert [problem.code for problem in subscription_health.problems] == [Indicator.LAGGING]


async def test_what_a_worker_has_taken_does_not_wait(watched: Watched) -> None:
    subscription = await watched.subscription()
    await watched.published(TOPIC, 800, ago=HOUR)
    taken = [at_start(subscription, partition, position=100) for partition in range(8)]
    await watched.report(subscription, *taken)
    await watched.monitor().look()
    subscription_health = (await looked_up(watched.database)).subscription_health
    assert subscription_health is not None
    assert (subscription_health.lag, subscription_health.lag_time) == (800, timedelta())


async def test_a_suspended_subscription_s_losses_are_forecast(watched: Watched) -> None:
    subscription = await watched.subscription()
    await watched.published(TOPIC, 80, ago=HOUR)
    await watched.set_state(subscription, State.SUSPENDED)
    await watched.monitor().look()
    subscription_health = (await looked_up(watched.database)).subscription_health
    assert subscription_health is not None
    assert subscription_health.first_loss is not None
    assert subscription_health.first_loss.cause is LossCause.RETENTION
    assert subscription_health.first_loss.messages == pytest.approx(80, abs=1)


async def test_what_is_tried_in_vain_is_lost_when_its_time_to_live_ends(watched: Watched) -> None:
    subscription = await watched.subscription()
    since = datetime.now(UTC) - timedelta(minutes=20)
    (partition, *_) = await watched.log.partitions(TOPIC)
    progress = Progress(
        subscription_id=subscription.id, offset=0, oldest_opened_ms=int(since.timestamp() * 1000)
    )
    committed = {partition: Committed(0, progress.metadata())}
    await watched.log.commit({subscription.group: committed})
    cursor = at_start(subscription, partition.index, end=1, position=1)
    refused = AttemptCounts(codes_5xx=600)
    await watched.report(subscription, cursor, waiting_retries=1, counts=refused)
    await watched.monitor().look()
    subscription_health = (await looked_up(watched.database)).subscription_health
    assert subscription_health is not None
    loss = subscription_health.first_loss
    assert loss is not None
    assert loss.cause is LossCause.MESSAGE_TTL
    lost_at = since + subscription.policy.message_ttl
    assert loss.at.timestamp() == pytest.approx(lost_at.timestamp(), abs=1)


async def test_one_of_many_watches_looks_and_another_one_when_it_resigns(
    watched: Watched,
) -> None:
    subscription = await watched.subscription()
    opened = CircuitReading(state=CircuitState.OPEN, since=NOON, reason="so many failures")
    await watched.report(subscription, output=Output(circuit=opened))
    monitors = [watched.monitor() for _ in range(4)]
    for _ in range(3):
        async with asyncio.TaskGroup() as looks:
            for monitor in monitors:
                looks.create_task(monitor.look())
    assert watched.told() == [("CIRCUIT_OPEN", "RAISED")]
    for monitor in monitors:
        await monitor.resign()
        async with asyncio.TaskGroup() as looks:
            for other in monitors:
                looks.create_task(other.look())
    assert watched.told() == [("CIRCUIT_OPEN", "RAISED")]


async def test_a_watch_that_hangs_is_replaced_and_what_it_finds_then_is_refused(
    watched: Watched,
) -> None:
    subscription = await watched.subscription()
    first, second = watched.monitor(), watched.monitor()
    await first.look()
    await second.look()
    async with watched.database.transaction() as session:
        await session.execute(text("UPDATE leases SET until = now() - interval '1 s'"))
    await second.look()
    await watched.set_state(subscription, State.SUSPENDED, "The endpoint answered 410")
    await first.look()
    assert watched.told() == []
    await second.look()
    assert watched.told() == [("SUSPENDED", "RAISED")]


async def test_what_a_watch_saw_before_it_was_replaced_is_refused(watched: Watched) -> None:
    subscription = await watched.subscription()
    first, second = watched.monitor(), watched.monitor()

    async def replace_it() -> None:
        async with watched.database.transaction() as session:
            await session.execute(text("UPDATE leases SET until = now() - interval '1 s'"))
        await watched.report(subscription, counts=FAILING)
        await second.look()

    watched.log.in_next_bounds = replace_it
    await first.look()
    assert (await looked_up(watched.database)).health is Health.UNHEALTHY


async def test_a_log_that_is_down_is_looked_at_again(watched: Watched) -> None:
    await watched.subscription()
    monitor = watched.monitor()
    watched.log.go_down()
    with pytest.raises(LogUnavailableError):
        await monitor.look()
    watched.log.come_back()
    await monitor.look()
    assert (await looked_up(watched.database)).health is Health.HEALTHY
