"""Traces in the database: how fast they are recorded, how much room they take, and how soon found.

Packs as workers make them are recorded as by the recorder, on one connection: of messages that go
to one subscription each, and to ten. Then messages are looked up by their ids, and undelivered ones
listed, by the services behind the API: first alone, for the CPU of this process and of PostgreSQL,
then while 5,000 entries a second are recorded. Also written to `build/bench/traces.json`.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import psutil
import uvloop
from sqlalchemy import text

from app.domain.discards.undelivered import UndeliveredFilter
from app.domain.message import NewRecord, Partition, Record
from app.domain.trace import TraceSource
from app.services.discards.undelivered import UndeliveredRequest, UndeliveredService
from app.services.inspection.traces import TraceService
from app.storage.database import Database, open_database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.traces.days import TraceDays
from app.tracing.packs import Pack, packed, unpacked
from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.integration.storage.builders import TOPIC, add_subscription, an_undelivered
from workers.recorder.traces import PACKS_MAX, DatabaseTraces

ENTRIES: Final = 400_000
ROWS: Final = 500
UNDELIVERED: Final = 20_000
LOOK_UPS: Final = 1_000
PER_SECOND: Final = 5_000
MORE: Final = Partition("angelia.traces", 1)
ROOM: Final = 100 << 30

_dice: Final = Random(1)
_ids: Final[list[str]] = []


def test_traces(postgres_url: str) -> None:
    report = Report("traces", f"{ENTRIES} trace entries, {UNDELIVERED} undelivered messages")
    uvloop.run(_measured(postgres_url, report))
    report.write()


async def _measured(url: str, report: Report) -> None:
    async with open_database(url, statement_timeout=timedelta(minutes=1)) as database:
        subscription = await add_subscription(database)
        source = TraceSource(
            topic=TOPIC, subscription_id=subscription.id, subscription=subscription.name
        )
        store = DatabaseTraces(database, kept=timedelta(days=7), bytes_max=ROOM)
        await store.positions()
        await _discarded(database, subscription.id)
        async with database.transaction() as session:
            # As the server does by itself within a minute.
            await session.execute(text("ANALYZE undelivered"))
        for number, times in enumerate((10, 1)):
            stream = Partition("angelia.traces", 2 + number)
            records = [_a_record(source, times) for _ in range(ENTRIES // ROWS)]
            found = await _recorded(database, store, records, stream=stream)
            report.add(f"recording, {times} entries a message", [found])
        traces, undelivered = TraceService(database), UndeliveredService(database)
        page = UndeliveredRequest(conditions=UndeliveredFilter(status=400), limit=100)

        async def look_up() -> None:
            await traces.of_message(_dice.choice(_ids))

        async def turn_page() -> None:
            await undelivered.page(TOPIC, subscription.name, page)

        kinds = {"trace by id": look_up, "page of 100 undelivered": turn_page}
        for kind, ask in kinds.items():
            report.add(kind, [await _cost(database, ask)])
        async with _recording(store, source):
            for kind, ask in kinds.items():
                report.add(f"{kind}, while recording", [await _timed(ask)])


async def _recorded(
    database: Database, store: DatabaseTraces, records: Sequence[NewRecord], *, stream: Partition
) -> dict[str, float]:
    server, before, start = await server_of(database), await _size(database), time.perf_counter()
    cpu, its = time.process_time(), used_by(server)
    for first in range(0, len(records), PACKS_MAX):
        some = records[first : first + PACKS_MAX]
        await _record(store, some, stream=stream, next_offset=first + len(some))
    cpu, its = time.process_time() - cpu, used_by(server) - its
    took = time.perf_counter() - start
    return {
        "entries/s": ENTRIES / took,
        "CPU us": cpu / ENTRIES * 1e6,
        "PostgreSQL CPU us": its / ENTRIES * 1e6,
        "MB per million": (await _size(database) - before) / ENTRIES,
    }


async def _size(database: Database) -> int:
    async with database.transaction() as session:
        return sum(each.size for each in await TraceDays(session).all())


async def server_of(database: Database) -> psutil.Process:
    """The server's first process, which is the parent of all others."""
    async with database.transaction() as session:
        its = psutil.Process(int(await session.scalar(text("SELECT pg_backend_pid()")) or 0))
    parent = its.parent()
    assert parent is not None
    return parent


def used_by(server: psutil.Process) -> float:
    """Seconds of CPU of all processes of the server that are there."""
    times = [each.cpu_times() for each in [server, *server.children()]]
    return float(sum(each.user + each.system for each in times))


async def _cost(database: Database, ask: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """Microseconds of CPU of one question."""
    for _ in range(20):
        await ask()
    server = await server_of(database)
    cpu, its = time.process_time(), used_by(server)
    for _ in range(LOOK_UPS):
        await ask()
    cpu, its = time.process_time() - cpu, used_by(server) - its
    return {"CPU us": cpu / LOOK_UPS * 1e6, "PostgreSQL CPU us": its / LOOK_UPS * 1e6}


@asynccontextmanager
async def _recording(store: DatabaseTraces, source: TraceSource) -> AsyncIterator[None]:
    """Go on recording beside the block."""
    records = [_a_record(source) for _ in range(100)]

    async def record() -> None:
        start = time.monotonic()
        for number in itertools.count(1):
            record = records[number % len(records)]
            await _record(store, [record], stream=MORE, next_offset=number)
            await pace.until(start + number * ROWS / PER_SECOND)

    async with asyncio.TaskGroup() as tasks:
        recording = tasks.create_task(record())
        yield
        recording.cancel()


async def _record(
    store: DatabaseTraces, records: Sequence[NewRecord], *, stream: Partition, next_offset: int
) -> None:
    read = (unpacked(Record(0, 0, None, each.value, list(each.headers))) for each in records)
    await store.record([pack for pack in read if pack is not None], stream, next_offset)


async def _discarded(database: Database, subscription_id: str) -> None:
    for first in range(0, UNDELIVERED, 1_000):
        discards = [
            an_undelivered(n, subscription_id=subscription_id, status=400 if n % 2 else 503)
            for n in range(first, first + 1_000)
        ]
        async with database.transaction() as session:
            stream = Partition("angelia.undelivered", 0)
            await UndeliveredRepository(session).record(discards, stream, first + 1_000)


async def _timed(ask: Callable[[], Awaitable[None]]) -> dict[str, float]:
    taken = []
    for _ in range(LOOK_UPS):
        start = time.perf_counter()
        await ask()
        taken.append((time.perf_counter() - start) * 1e3)
    return {"p50 ms": percentile(taken, 50), "p99 ms": percentile(taken, 99)}


def _a_record(source: TraceSource, times: int = 1) -> NewRecord:
    """Of messages that so many subscriptions each got."""
    now = time.time_ns() // 1_000
    sources = {
        number: source._replace(subscription_id=f"{source.subscription_id}{number or ''}")
        for number in range(times)
    }
    rows = [row for _ in range(ROWS // times) for row in _some_rows(now, times)]
    return packed(Pack("worker-1234-0123abcd", now, 0, "", sources, rows))


def _some_rows(at: int, times: int) -> Sequence[Sequence[Any]]:
    message_id = str(UUID(int=_dice.getrandbits(128), version=4))
    if _dice.random() < 0.01:
        _ids.append(message_id)
    partition, offset = _dice.randrange(8), _dice.randrange(1 << 32)
    return [
        (
            number, at + _dice.randrange(100_000), "SUCCESS", message_id, partition, offset,
            1, 200, "", 1_234_000, _dice.randrange(999), None, _dice.randrange(50_000), "", "", "",
        )
        for number in range(times)
    ]  # fmt: skip
