"""What it costs to record the history of 20,000 subscriptions, and how much space it takes."""

import random
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import pytest
from sqlalchemy import text

from app.domain.message import Partition
from app.domain.metrics.attempts import AttemptTotals
from app.domain.metrics.samples import ATTEMPTS, DURATIONS
from app.domain.metrics.steps import Step
from app.domain.status import AttemptCounts, CursorStatus, Output, SubscriptionLoad
from app.log.interface import Bounds
from app.services.metrics.history_recorder import HistoryRecorder
from app.storage.database import Database
from app.storage.health.history_partitions import partition_of
from app.storage.health.statuses import StatusRepository
from tests.benchmarks import catalogue
from tests.benchmarks.aside import Meter
from tests.benchmarks.bench_management import postmaster_of
from tests.benchmarks.figures import Report
from tests.fakes.memory_log import MemoryLog

NOON: Final = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
# Messages of a subscription in a minute: most have few, some have many.
PER_MINUTE: Final = (2, 10, 60, 300, 3_000)
# One subscription in so many fails: a tenth of its requests are answered by 5xx, or not in time.
FAILS_ONE_IN: Final = 10
# How many of a hundred requests take how long, by the bounds of durations.
SHARES: Final = (2, 40, 40, 12, 4, 1, 1)

ROWS: Final = ("a minute", "… the first of an hour", "vacuum of it, each minute")
# Minutes before and after the end of an hour.
BEFORE: Final = 5
AFTER: Final = 4
# So many subscriptions show how much space one takes.
SOME: Final = 1_000
SIZE: Final = text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
AVERAGE: Final = text("SELECT avg(length(body)) FROM metrics_history WHERE step = 1")
LARGEST: Final = text("SELECT max(length(body)) FROM metrics_history WHERE step = 1")


class Busy:
    """A subscription, what its worker counted, and what it counts in a minute."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self._chance = chance
        self._rate = PER_MINUTE[number % len(PER_MINUTE)]
        self._fails = number % FAILS_ONE_IN == 0
        self._numbers = [0] * (len(ATTEMPTS) + DURATIONS)
        known = catalogue.a_subscription(number)
        self._cursor = CursorStatus(
            subscription_id=known.id,
            topic=known.topic,
            partition=0,
            worker_id="w",
            offset=900,
            end=900,
            delivered=800,
            discarded=1,
            volume=100_000,
        )

    def passed(self) -> tuple[CursorStatus, SubscriptionLoad]:
        """Deliver about as much as in each minute; return what is reported then."""
        count = max(0, round(self._chance.gauss(self._rate, self._rate**0.5)))
        failed = self._chance.randrange(count // 5 + 1) if self._fails else 0
        for name in ("retries", "codes_5xx"):
            self._numbers[ATTEMPTS.index(name)] += failed
        self._numbers[ATTEMPTS.index("timeouts")] += failed // 8
        left = count + failed + failed // 8
        for bucket, share in enumerate(SHARES):
            some = left * share / sum(SHARES)
            took = max(0, round(self._chance.gauss(some, some**0.5)))
            self._numbers[len(ATTEMPTS) + bucket] += took
        before = self._cursor
        self._cursor = replace(
            before,
            offset=before.offset + count,
            end=before.offset + count + self._chance.randrange(count // 10 + 1),
            delivered=before.delivered + count,
        )
        load = SubscriptionLoad(
            subscription_id=self._cursor.subscription_id,
            worker_id="w",
            window=MINUTE,
            in_flight=1,
            waiting_retries=0,
            counts=AttemptCounts(codes_2xx=self._rate),
            output=Output(rate=400.0 if not self._fails else self._chance.uniform(200, 400)),
            attempts=AttemptTotals(1, tuple(self._numbers)),
        )
        return self._cursor, load


class Costs:
    """Measures CPU by blocks."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    @contextmanager
    def measured(self, into: list[dict[str, float]], *, minutes: int = 1) -> Iterator[None]:
        """Add what the block costs, spread over so many minutes."""
        seconds = minutes * MINUTE.total_seconds()
        own, postgres = time.process_time(), self._meter.read().postgres
        yield
        spent = {
            "API % of a core": time.process_time() - own,
            "PostgreSQL % of a core": self._meter.read().postgres - postgres,
        }
        into.append({name: each / seconds * 100 for name, each in spent.items()})


class Ends(MemoryLog):
    """A log of which nothing is known but where its partitions end."""

    def __init__(self, ends: Mapping[Partition, int]) -> None:
        super().__init__()
        self.ends = dict(ends)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        return {each: Bounds(start=0, end=self.ends[each]) for each in partitions}


class Recording:
    """So many busy subscriptions, whose minutes are recorded one after the other."""

    def __init__(self, database: Database, subscriptions: int) -> None:
        self._database = database
        chance = random.Random(1)
        self._busy = [Busy(number, chance) for number in range(subscriptions)]
        topics = [catalogue.a_topic(number) for number in range(catalogue.TOPICS)]
        self._log = Ends(
            {
                Partition(each.name, index): 900 + index
                for each in topics
                for index in range(each.partitions)
            }
        )
        self._recorder = HistoryRecorder(database, self._log)

    async def report(self) -> None:
        """Workers report what was counted in a minute."""
        reports = [each.passed() for each in self._busy]
        self._log.ends |= {Partition(cursor.topic, 0): cursor.end for cursor, _ in reports}
        # In parts, as several workers would: a transaction must not wait for long.
        for some in catalogue.batched(range(len(reports)), catalogue.PER_GO):
            cursors, loads = zip(*reports[some.start : some.stop], strict=True)
            async with self._database.transaction() as session:
                await StatusRepository(session).write(cursors, loads)

    async def record(self, minute: datetime) -> None:
        await self._recorder.record(minute)


@pytest.mark.timeout(3_600)
async def test_recording_the_history_of_many_subscriptions(
    postgres_url: str, database: Database
) -> None:
    await catalogue.fill(database)
    recording = Recording(database, catalogue.SUBSCRIPTIONS)
    costs = Costs(Meter(postmaster_of(postgres_url)))
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ROWS}
    with psycopg.connect(postgres_url, autocommit=True) as vacuum:
        for number in range(-BEFORE, AFTER):
            await recording.report()
            with costs.measured(rows["a minute" if number else "… the first of an hour"]):
                await recording.record(NOON + number * MINUTE)
            if number == AFTER - 1:
                with costs.measured(rows["vacuum of it, each minute"], minutes=BEFORE + AFTER):
                    vacuum.execute("VACUUM metrics_recorded")
    report = Report("history", f"The history of {catalogue.SUBSCRIPTIONS:,} busy subscriptions")
    for name, costs_of in rows.items():
        report.add(name, costs_of)
    report.write()


@pytest.mark.timeout(3_600)
async def test_space_of_the_history_of_busy_subscriptions(database: Database) -> None:
    await catalogue.fill(database, topics=SOME // 4, subscriptions=SOME)
    recording = Recording(database, SOME)
    for number in range(61):
        await recording.report()
        await recording.record(NOON + number * MINUTE)
    report = Report("history_space", "Bytes of a busy subscription, with a fourth of its topic")
    report.add("all", [await space(database)])
    report.write()


async def space(database: Database) -> dict[str, float]:
    """The bytes of a subscription and hour, with its share of its topic's and of the indexes."""
    async with database.transaction() as session:
        minutes, hours = [
            await session.scalar(SIZE, {"name": partition_of(step, NOON).name})
            for step in (Step.MINUTE, Step.HOUR)
        ]
        average = await session.scalar(AVERAGE)
        largest = await session.scalar(LARGEST)
    return {
        "an hour of minutes": (minutes or 0) / SOME,
        "one hour": (hours or 0) / SOME,
        "average row of minutes": float(average or 0),
        "largest row of minutes": largest or 0,
    }
