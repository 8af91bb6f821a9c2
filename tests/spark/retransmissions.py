"""A topic in a log and a subscription in the database, and what jobs choose of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import select

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.job import Job, JobResult
from app.domain.message import HEADER_ID, NewRecord, Partition
from app.domain.replay.retransmission import Only, Retransmission, Selection
from app.log.factory import LogLocation, log_at
from app.log.interface import Committed, MessageLog, Position
from app.services.applied_changes import AppliedChanges
from app.services.replay.retransmissions import RetransmissionService
from app.services.replay.spans import WantedSpans
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.tables import RetransmissionRunRow
from spark.jobs import retransmission
from spark.store import DatabaseJobs
from spark.work import Work, WorkProgress
from tests.contract.harness import Harness
from tests.contract.logs import a_topic, eventually
from tests.integration.storage.builders import TOPIC, a_subscription, add_topic, an_undelivered
from tests.spark.taking import LEASE

AGO = timedelta(hours=6)

Places = set[tuple[int, int]]


async def _nobody() -> list[Any]:
    return []


# For tests that need only one log.
EMBEDDED = pytest.mark.parametrize("harness", ["postgres"], indirect=True)
# For tests of behaviour that hardly depends on the log: `make test` runs them on one, and
# `make test-long` on both.
ONE_LOG = pytest.mark.parametrize(
    "harness", ["postgres", pytest.param("kafka", marks=pytest.mark.long)], indirect=True
)


@dataclass(slots=True, kw_only=True)
class Bench:
    """All that a retransmission is chosen with."""

    spark: SparkSession
    database: Database
    log: MessageLog
    place: LogLocation
    url: str
    output: Path
    subscription: Subscription
    # None: in a folder of the output.
    archive: str | None = None

    @property
    def service(self) -> RetransmissionService:
        return RetransmissionService(self.database, self.log, AppliedChanges(_nobody))

    async def publish(
        self, *bodies: bytes, key: bytes | None = None, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Sequence[Position]:
        records = [
            NewRecord(value=body, key=key, headers=((HEADER_ID, b"m-" + body), *headers))
            for body in bodies
        ]
        return await self.log.append(TOPIC, records)

    async def discard(self, *positions: Position, **settings: Any) -> list[Undelivered]:  # noqa: ANN401 - fields of the value
        return [
            an_undelivered(
                position.offset,
                subscription_id=self.subscription.id,
                partition=position.partition.index,
                discarded_at=datetime.now(UTC),
                **settings,
            )
            for position in positions
        ]

    async def commit_all(self) -> None:
        """The subscription is done with all that there is."""
        partitions = await self.log.partitions(TOPIC)
        bounds = await self.log.bounds(partitions)
        done = {each: Committed(bound.end) for each, bound in bounds.items()}
        await self.log.commit({self.subscription.group: done})

    async def asked(self, only: Only = Only.ALL, **wanted: Any) -> Retransmission:  # noqa: ANN401 - fields of the value
        selection = {
            name: wanted.pop(name)
            for name in ("statuses", "message_ids", "keys", "filters", "reason")
            if name in wanted
        }
        settings = {"since": datetime.now(UTC) - AGO, **wanted}
        asked = WantedSpans(**settings, selection=Selection(only=only, **selection))
        seen = await self.service.request(TOPIC, self.subscription.name, asked)
        return seen.items[0]

    async def taken(self, runner: str = "r-1") -> Job:
        async with self.database.transaction() as session:
            job = await JobRepository(session).take(runner, LEASE)
        assert job is not None
        return job

    async def done(self, job: Job) -> JobResult:
        return await asyncio.to_thread(retransmission.run, self.spark, self.work(job))

    def work(self, job: Job) -> Work:
        return Work(
            database_url=self.url,
            scope=job.scope,
            output=str(self.output),
            claim=job.claim,
            progress=WorkProgress(),
            log=self.place,
        )

    async def finished(self, job: Job, result: JobResult) -> bool:
        # Only what it hears of its jobs is the notices': this one hears nothing.
        store = DatabaseJobs(
            self.database,
            notices=None,  # type: ignore[arg-type]  # not used
            runner="r-1",
            open_a_log=lambda: log_at(self.url, self.place),
        )
        return await store.finish(job.claim, result)

    async def chosen(self, only: Only = Only.ALL, **wanted: Any) -> tuple[Retransmission, Places]:  # noqa: ANN401 - of `asked`
        """Ask, choose; what is to be sent then."""
        asked = await self.asked(only, **wanted)
        job = await self.taken()
        assert await self.finished(job, await self.done(job))
        return await self.seen(asked), await self.places(asked)

    async def seen(self, asked: Retransmission) -> Retransmission:
        found = await self.service.get(TOPIC, self.subscription.name, asked.id)
        return found.items[0]

    async def places(self, asked: Retransmission) -> Places:
        row = RetransmissionRunRow
        async with self.database.transaction() as session:
            runs = list(await session.scalars(select(row).where(row.job_id == asked.id)))
        return {(run.partition, offset) for run in runs for offset in range(run.start, run.end)}

    async def change(self, **settings: Any) -> None:  # noqa: ANN401 - fields of the value
        async with self.database.transaction() as session:
            changed = replace(self.subscription, **settings)
            self.subscription = await SubscriptionRepository(session).update(changed)


async def trimmed(bench: Bench, harness: Harness, partition: Partition, *, offset: int) -> None:
    """Have the log lose what is before that offset."""
    await harness.trim(partition, offset)

    async def gone() -> bool:
        return (await bench.log.bounds([partition]))[partition].start == offset

    await eventually(gone)


@asynccontextmanager
async def a_bench(
    spark: SparkSession, database: Database, harness: Harness, *, url: str, output: Path
) -> AsyncIterator[Bench]:
    """A topic of three partitions in that log, and a subscription that is to get it all."""
    async with harness.opened() as log:
        await log.create_topic(a_topic(TOPIC, partitions=3))
        async with database.transaction() as session:
            await add_topic(session, propagated_headers=("x",))
            subscription = await SubscriptionRepository(session).add(a_subscription())
        yield Bench(
            spark=spark,
            database=database,
            log=log,
            place=LogLocation(kafka_bootstrap=harness.bootstrap, namespace=harness.namespace),
            url=url,
            output=output,
            subscription=subscription,
        )


def places(positions: Sequence[Position]) -> Places:
    return {(position.partition.index, position.offset) for position in positions}


STREAM = Partition("angelia.undelivered", 0)
