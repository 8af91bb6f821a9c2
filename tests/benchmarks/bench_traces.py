"""Traces in the database: how fast they are recorded, how much room they take, and how soon found.

Packs as workers make them are recorded as by the recorder, on one connection; its CPU is this
process's, without PostgreSQL's. Then messages are looked up by their ids, and undelivered ones
listed, by the services behind the API, while 5,000 entries a second are recorded. Also written to
`build/bench/traces.json`.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Final
from uuid import UUID

import uvloop

from app.domain.message import NewRecord, Partition, Record
from app.domain.trace import TraceSource
from app.domain.undelivered import UndeliveredFilter
from app.services.traces import TraceService
from app.services.undelivered import UndeliveredService, Wanted
from app.storage.database import Database, open_database
from app.storage.trace_days import TraceDays
from app.storage.undelivered import UndeliveredRepository
from app.tracing.packing import Pack, PlainRow, packed, unpacked
from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.integration.storage.builders import TOPIC, add_subscription, an_undelivered
from workers.recorder.traces import PACKS_MAX, DatabaseTraces

ENTRIES: Final = 400_000
ROWS: Final = 500
UNDELIVERED: Final = 20_000
LOOK_UPS: Final = 500
PER_SECOND: Final = 5_000
STREAM: Final = Partition("angelia.traces", 0)
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
        records = [_a_record(source) for _ in range(ENTRIES // ROWS)]
        report.add("recording", [await _recorded(database, store, records)])
        await _discarded(database, subscription.id)
        traces, undelivered = TraceService(database), UndeliveredService(database)
        page = Wanted(asked=UndeliveredFilter(status=400), limit=100)
        async with _recording(store, source):
            report.add("trace by id", [await _timed(lambda: traces.of_message(_dice.choice(_ids)))])
            report.add(
                "page of 100 undelivered",
                [await _timed(lambda: undelivered.page(TOPIC, subscription.name, page))],
            )


async def _recorded(
    database: Database, store: DatabaseTraces, records: Sequence[NewRecord]
) -> dict[str, float]:
    cpu, start = time.process_time(), time.perf_counter()
    for first in range(0, len(records), PACKS_MAX):
        some = records[first : first + PACKS_MAX]
        await _record(store, some, stream=STREAM, next_offset=first + len(some))
    cpu, took = time.process_time() - cpu, time.perf_counter() - start
    async with database.transaction() as session:
        size = sum(each.size for each in await TraceDays(session).all())
    return {
        "entries/s": ENTRIES / took,
        "CPU us/entry": cpu / ENTRIES * 1e6,
        "MB per million": size / ENTRIES,
    }


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


async def _timed(look_up: Callable[[], Awaitable[object]]) -> dict[str, float]:
    taken = []
    for _ in range(LOOK_UPS):
        start = time.perf_counter()
        await look_up()
        taken.append((time.perf_counter() - start) * 1e3)
    return {"p50 ms": percentile(taken, 50), "p99 ms": percentile(taken, 99)}


def _a_record(source: TraceSource) -> NewRecord:
    now = time.time_ns() // 1_000
    rows = [_a_row(now + 37 * n) for n in range(ROWS)]
    return packed(Pack("worker-1234-0123abcd", now, 0, "", {0: source}, rows))


def _a_row(at: int) -> PlainRow:
    message_id = str(UUID(int=_dice.getrandbits(128), version=4))
    if _dice.random() < 0.01:
        _ids.append(message_id)
    offset, took = _dice.randrange(1 << 32), _dice.randrange(50_000)
    return (
        0, at, "SUCCESS", message_id, _dice.randrange(8), offset, 1, 200, "",
        1_234_000, 210, None, took, "", "", "",
    )  # fmt: skip
