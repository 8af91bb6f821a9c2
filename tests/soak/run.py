"""One soak: the service, who publishes, who receives, who operates, and what is read meanwhile."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

import httpx
import psutil

from tests.benchmarks import pace
from tests.soak import readings
from tests.soak.catalogue import Catalogue
from tests.soak.churn import Churn
from tests.soak.endpoints import Endpoints
from tests.soak.plan import Plan
from tests.soak.publishing import BEGIN_RATE, Publisher, next_rate
from tests.soak.recorder import Recorder
from tests.soak.report import Report
from tests.soak.service import SoakedService, soaked_service

READ_EVERY_S: Final = 5.0
# So often the rate is set anew during the warm-up.
RATE_EVERY_S: Final = 60.0
# Messages that are missing count as lost when none of them came for so long.
QUIET_S: Final = 600.0


@dataclass(slots=True)
class Soak:
    """Reads every few seconds what the service uses, until the time is over."""

    plan: Plan
    recorder: Recorder
    report: Report
    _begun: float = 0.0
    _used: dict[str, float] = field(default_factory=dict)
    _read_at: float = 0.0
    _tables: readings.Tables = field(default_factory=dict)

    @property
    def _now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    async def run(self, database_url: str, bootstrap: str) -> None:
        """Soak a service on this database and this Kafka."""
        configuration = {
            "ANGELIA_DATABASE_URL": database_url,
            "ANGELIA_KAFKA_BOOTSTRAP": bootstrap,
        }
        async with (
            soaked_service(configuration, self.report.folder) as service,
            Endpoints() as endpoints,
            httpx.AsyncClient(base_url=service.url, timeout=60, trust_env=False) as http,
        ):
            publisher = Publisher(service.url, self.plan.rate or BEGIN_RATE)
            catalogue = Catalogue(http, endpoints, publisher)
            churn = Churn(catalogue, Random(self.plan.seed))
            await churn.begin()
            async with publisher.publishing(), asyncio.TaskGroup() as tasks:
                operators = tasks.create_task(churn.run())
                await self._watch(service, publisher, http, database_url=database_url)
                operators.cancel()
            self._say(publisher, catalogue, churn, requests=endpoints.requests)
            if not service.ended():
                await churn.end()
                self.report.account(await catalogue.settle_all(quiet_s=QUIET_S))

    async def _watch(
        self,
        service: SoakedService,
        publisher: Publisher,
        http: httpx.AsyncClient,
        *,
        database_url: str,
    ) -> None:
        """Read all until the time is over, or a process has ended."""
        self._begun = time.monotonic()
        rates = _Rates(self.plan, publisher)
        while self._now < self.plan.seconds:
            if ended := service.ended():
                self.report.problems.append(f"ended at {self._now:.0f} s: {', '.join(ended)}")
                return
            at = self._now
            with suppress(psutil.NoSuchProcess):  # the next look finds that it has ended
                values = await self._read(service, http, database_url=database_url)
                self.recorder.add(at, values)
                rates.follow(at, sum(self._used.values()))
            await pace.until(self._begun + at + READ_EVERY_S)

    async def _read(
        self, service: SoakedService, http: httpx.AsyncClient, *, database_url: str
    ) -> readings.Values:
        processes = service.processes()
        values = self._cpu(processes)
        values |= await readings.read_all(processes)
        for name, page in service.metrics_pages().items():
            values |= await readings.read_page(name, http, page)
        of_database, self._tables = await readings.read_database(database_url)
        return values | of_database

    def _cpu(self, processes: Mapping[str, psutil.Process]) -> readings.Values:
        """Return what each process used of a core since the last time; nothing at first."""
        used = {name: readings.cpu_s(process) for name, process in processes.items()}
        took, self._read_at = self._now - self._read_at, self._now
        values = {
            (readings.CPU, name): (used[name] - before) / took * 100
            for name, before in self._used.items()
        }
        self._used = used
        if values:
            values[readings.CPU, "service"] = sum(values.values())
        return dict(values)

    def _say(
        self, publisher: Publisher, catalogue: Catalogue, churn: Churn, *, requests: int
    ) -> None:
        done = ", ".join(f"{name} {times}" for name, times in sorted(churn.done.items()))
        self.report.lines += [
            f"{publisher.rate:.0f} messages a second in the end",
            f"{publisher.acknowledged:,} messages acknowledged, {publisher.failed:,} not",
            f"{requests:,} requests to endpoints",
            f"operators: {done}; {catalogue.calls:,} calls, {catalogue.calls_again} of them again",
        ]
        self.report.tables(self._tables)


@dataclass(slots=True)
class _Rates:
    """Finds the rate during the warm-up, unless it is given."""

    plan: Plan
    publisher: Publisher
    _at: float = 0.0
    _used_s: float | None = None
    _acknowledged: int = 0

    def follow(self, at: float, used_s: float) -> None:
        """Set the rate by what the messages since the last time took."""
        if self.plan.rate is not None or at > self.plan.warm_up_s or at < self._at:
            return
        now = self.publisher.acknowledged
        if self._used_s is not None:
            self.publisher.rate = next_rate(
                self.publisher.rate,
                used_s=used_s - self._used_s,
                published=now - self._acknowledged,
                cores=self.plan.cores,
            )
        self._used_s, self._acknowledged = used_s, now
        self._at = at + RATE_EVERY_S
