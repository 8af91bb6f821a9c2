"""A subscription whose ledger is kept, as its workers and a runner would."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.commit import Progress
from app.domain.insight.ledger import LedgerEntry
from app.domain.job import Job, JobKind, JobResult
from app.domain.message import HEADER_TARGET, Partition
from app.domain.targeted import RecordTarget
from app.log.interface import Committed, Position
from app.services.insight.ledgers import LedgerService
from spark.jobs import ledger
from tests.integration.storage.builders import TOPIC
from tests.spark.retransmissions import Bench

EVER: Final = datetime(2020, 1, 1, tzinfo=UTC)


class Books:
    """Commits of a subscription as its workers make them, and the entries that follow."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.service = LedgerService(bench.database, bench.log)
        self._at = {
            index: Progress(subscription_id=bench.subscription.id, offset=0) for index in range(3)
        }

    async def passed(self, index: int, offset: int, **counts: int) -> None:
        """It finished all before `offset` of the partition, and counted so many more."""
        last = self._at[index]
        added = {name: getattr(last, name) + count for name, count in counts.items()}
        await self.commit(index, replace(last, offset=offset, finished=(), **added))

    async def commit(self, index: int, progress: Progress) -> None:
        self._at[index] = progress
        committed = {Partition(TOPIC, index): Committed(progress.offset, progress.metadata())}
        assert not await self.bench.log.commit({self.bench.subscription.group: committed})

    async def asked(self) -> Job:
        return (await self.service.request(TOPIC, self.bench.subscription.name)).jobs[0]

    async def done(self, job: Job) -> JobResult:
        work = self.bench.work(job)
        return await asyncio.to_thread(ledger.run, self.bench.spark, work)

    async def entry(self) -> LedgerEntry:
        """Ask for the next one, and have it made."""
        await self.asked()
        job = await self.bench.taken()
        assert job.kind is JobKind.LEDGER
        assert await self.bench.finished(job, await self.done(job))
        return (await self.entries())[-1]

    async def entries(self) -> Sequence[LedgerEntry]:
        name, until = self.bench.subscription.name, datetime.now(UTC) + timedelta(hours=1)
        found = await self.service.between(TOPIC, name, since=EVER, until=until, limit=100)
        return found.entries

    async def publish(self, count: int, *, again: RecordTarget | None = None) -> Sequence[Position]:
        """So many into one partition."""
        headers = [] if again is None else [(HEADER_TARGET, again.header())]
        bodies = [b"%d" % number for number in range(count)]
        return await self.bench.publish(*bodies, key=b"k", headers=headers)
