"""An archive of a topic, and what there is to read in it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update

from app.domain.catalogue.offline_storage import OfflineStorage
from app.domain.job import Job, JobKind, JobResult, JobScope
from app.services.insight.jobs import JobService
from app.storage.catalogue.topics import TopicRepository
from app.storage.spark.archive_parts import FileRetention
from app.storage.tables import KEPT, ArchiveFolderRow, ArchivePieceRow
from spark.archives import read_archived
from spark.jobs import archive
from spark.work import WorkProgress
from tests.integration.storage.builders import NOON, TOPIC
from tests.spark.retransmissions import Bench

SCOPE = JobScope(start=NOON - timedelta(hours=1), end=NOON)
AT_ONCE = FileRetention(dropped_for=timedelta(0), abandoned_for=timedelta(0))


async def archived(bench: Bench, storage: OfflineStorage | None = None) -> None:
    """The topic of the bench is archived from now on."""
    async with bench.database.transaction() as session:
        topic = await TopicRepository(session).get(TOPIC)
        storage = storage or OfflineStorage(enabled=True, days=60)
        await TopicRepository(session).update(replace(topic, offline_storage=storage))


async def asked(bench: Bench) -> Job:
    """A job for the topic, which a runner has taken."""
    scope = replace(SCOPE, topic=TOPIC)
    await JobService(bench.database).request(JobKind.ARCHIVE, scope)
    return await bench.taken()


async def written(
    bench: Bench,
    job: Job,
    patience: FileRetention | None = None,
    *,
    progress: WorkProgress | None = None,
) -> JobResult:
    """What the job has made, which does not count yet."""
    work = replace(bench.work(job), archive=bench.archive or f"{bench.output}/archive")
    work = replace(work, progress=progress or work.progress)
    return await asyncio.to_thread(archive.run, bench.spark, work, patience=patience)


class Watched(WorkProgress):
    """Does something as soon as an archive's job knows what is new of its topic."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self._then = then

    def step(self, name: str, *, done: float, until: float) -> None:
        super().step(name, done=done, until=until)
        if name.startswith("Archiving"):
            self._then()


async def done(bench: Bench, patience: FileRetention | None = None) -> JobResult:
    """Have all that is new archived."""
    job = await asked(bench)
    result = await written(bench, job, patience)
    assert await bench.finished(job, result)
    return result


async def folders(bench: Bench, *, state: str | None = KEPT) -> list[str]:
    row = ArchiveFolderRow
    query = select(row.path).order_by(row.begun_at)
    async with bench.database.transaction() as session:
        return list(
            await session.scalars(query if state is None else query.where(row.state == state))
        )


async def kept_rows(bench: Bench) -> list[dict[str, Any]]:
    """All that there is to read."""
    frames = [read_archived(bench.spark, path) for path in await folders(bench)]
    return [row.asDict(recursive=True) for frame in frames for row in frame.collect()]


async def kept_places(bench: Bench) -> Counter[tuple[int, int]]:
    """How often each record is in it."""
    return Counter((row["partition"], row["offset"]) for row in await kept_rows(bench))


async def kept_pieces(bench: Bench) -> Sequence[ArchivePieceRow]:
    async with bench.database.transaction() as session:
        return list(await session.scalars(select(ArchivePieceRow)))


async def aged(bench: Bench, days: int) -> None:
    """All that is archived was so many days earlier."""
    row = ArchiveFolderRow
    async with bench.database.transaction() as session:
        await session.execute(update(row).values(begun_at=row.begun_at - timedelta(days=days)))
