"""The runner as its process puts it together, on an engine that counts nothing."""

import asyncio
import os
import signal
from contextlib import nullcontext

from app.config import Settings
from app.services.insight.ledgers import LedgerService
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import open_database
from spark.main import run
from tests.contract.harness import PostgresHarness
from tests.contract.logs import a_topic, eventually
from tests.fakes.engine import FakeEngine
from tests.integration.storage.builders import TOPIC, a_subscription, add_topic


async def test_the_runner_of_a_process_anchors_the_entries_that_it_stores(
    postgres_url: str,
) -> None:
    harness, engine = PostgresHarness(postgres_url), FakeEngine()
    engine.may_end.set()
    # Without keys, as the runner.
    async with harness.opened() as log, open_database(postgres_url) as database:
        await log.create_topic(a_topic(TOPIC, partitions=1))
        async with database.transaction() as session:
            await add_topic(session)
            await SubscriptionRepository(session).add(a_subscription(start={0: 0}))
        ledgers = LedgerService(database, log)
        await ledgers.request(TOPIC, "billing")

        async def is_anchored() -> bool:
            return (await ledgers.check(TOPIC, "billing")).anchored == 1

        settings = Settings(namespace=harness.namespace)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                run(settings, database_url=postgres_url, engine=lambda *_: nullcontext(engine))
            )
            await eventually(is_anchored)
            os.kill(os.getpid(), signal.SIGTERM)
        assert [job.scope.subscription for job in engine.jobs] == ["billing"]
