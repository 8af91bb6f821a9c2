"""What the contract suite needs of each log beyond the log itself: age it, and kill who uses it."""

import asyncio
import os
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from random import Random
from typing import Protocol

import psycopg
from kafka import KafkaAdminClient, TopicPartition

from app.domain.kafka_security import IN_THE_CLEAR
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.postgres import postgres_log
from tests.fakes.memory_log import MemoryLog, wall_clock_ms
from tests.servers.kafka_listeners import SecuredAddress
from tests.simulation.conditions import Service
from tests.simulation.simulated_log import SimulatedLog

READY_SECONDS_MAX = 60.0

_numbers = count()


class Killable(Protocol):
    """A member in a process of its own that never lets go of anything by itself."""

    async def kill(self) -> None:
        """End it as kill -9 does."""


class Harness(ABC):
    """One log, empty, with a namespace of its own."""

    def __init__(self) -> None:
        self.namespace = f"t{uuid.uuid4().hex[:10]}."

    @property
    def bootstrap(self) -> str | None:
        """Where Kafka is; None when the log is elsewhere."""
        return None

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[MessageLog]:
        """The log as one more process has it."""

    @abstractmethod
    def elsewhere(self) -> AbstractAsyncContextManager[MessageLog]:
        """Another namespace of the same log."""

    @abstractmethod
    async def trim(self, partition: Partition, offset: int) -> None:
        """Drop the records before `offset`, as retention does."""

    @abstractmethod
    def member(
        self, name: str, topics: Collection[str], *, owns: int
    ) -> AbstractAsyncContextManager[Killable]:
        """A member that can be killed, once it owns at least `owns` partitions."""


class MemoryMemberProcess:
    def __init__(self, log: MemoryLog, name: str) -> None:
        self._log = log
        self._name = name

    async def kill(self) -> None:
        self._log.kill(self._name)


class MemoryHarness(Harness):
    def __init__(self) -> None:
        super().__init__()
        self._log = MemoryLog()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[MessageLog]:
        yield self._log

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[MessageLog]:
        yield MemoryLog()

    async def trim(self, partition: Partition, offset: int) -> None:
        self._log.trim(partition, offset)

    @asynccontextmanager
    async def member(
        self, name: str, topics: Collection[str], *, owns: int
    ) -> AsyncIterator[Killable]:
        async with self._log.ownership(member=name) as ownership:
            ownership.subscribe(topics)
            owned: set[Partition] = set()
            async for event in ownership.events():
                owned |= event.partitions
                if len(owned) >= owns:
                    break
            yield MemoryMemberProcess(self._log, name)


class SimulatedHarness(Harness):
    """The log of simulations, in real time, without faults, and with short sessions."""

    def __init__(self) -> None:
        super().__init__()
        service = Service(Random(0), usual_s=(0.0, 0.0))
        self._log = SimulatedLog(wall_clock_ms, service, session_s=3.0)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[MessageLog]:
        yield self._log.client(f"process {next(_numbers)}")

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[MessageLog]:
        yield SimulatedLog(wall_clock_ms, self._log.service).client("another")

    async def trim(self, partition: Partition, offset: int) -> None:
        self._log.trim(partition, offset)

    @asynccontextmanager
    async def member(
        self, name: str, topics: Collection[str], *, owns: int
    ) -> AsyncIterator[Killable]:
        async with self._log.client(name).ownership(member=name) as ownership:
            ownership.subscribe(topics)
            owned: set[Partition] = set()
            async for event in ownership.events():
                owned |= event.partitions
                if len(owned) >= owns:
                    break
            yield SimulatedMemberProcess(self._log, name)


class SimulatedMemberProcess:
    def __init__(self, log: SimulatedLog, name: str) -> None:
        self._log = log
        self._name = name

    async def kill(self) -> None:
        link = self._log.service.link(self._name)
        link.requests_severed = link.answers_severed = True


class MemberProcess:
    """`python -m tests.contract.member …`: prints how many partitions it owns, at each event."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def owns(self, partitions: int) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if int(line) >= partitions:
                return
        raise AssertionError("the member ended before it owned enough")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        # Read to the end of its output, or the pipe is left open behind it.
        await self._process.communicate()


class ServerHarness(Harness):
    """A log on a server, which members in other processes reach as well."""

    def __init__(self, kind: str, address: str, *, secured: SecuredAddress | None = None) -> None:
        super().__init__()
        self._kind = kind
        self._address = address
        self._secured = secured or SecuredAddress(address, IN_THE_CLEAR)
        # What is no Kafka has no settings of one.
        self._environment = {} if secured is None else secured.environment()

    def opened(self) -> AbstractAsyncContextManager[MessageLog]:
        return opened_log(self._kind, self._secured, self.namespace)

    def elsewhere(self) -> AbstractAsyncContextManager[MessageLog]:
        return opened_log(self._kind, self._secured, f"other-{self.namespace}")

    @asynccontextmanager
    async def member(
        self, name: str, topics: Collection[str], *, owns: int
    ) -> AsyncIterator[Killable]:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.contract.member"),
            *(self._kind, self._secured.bootstrap, self.namespace, name, *topics),
            env=os.environ | self._environment,
            stdout=asyncio.subprocess.PIPE,
        )
        process = MemberProcess(started)
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await process.owns(owns)
            yield process
        finally:
            await process.kill()


class PostgresHarness(ServerHarness):
    def __init__(self, url: str) -> None:
        super().__init__("postgres", url)

    async def trim(self, partition: Partition, offset: int) -> None:
        """Make the records old: the adapter itself drops them, when it is told of any topic."""
        name = self.namespace + partition.topic
        async with (
            await psycopg.AsyncConnection.connect(self._address) as connection,
            connection.transaction(),
        ):
            await connection.execute(
                "UPDATE log_records SET appended_at = appended_at - interval '1000 days' FROM "
                "log_topics t WHERE topic_id = t.id AND t.name = %s AND partition = %s "
                'AND "offset" < %s',
                [name, partition.index, offset],
            )
            await connection.execute("SELECT pg_notify('angelia_log', 't ' || %s)", [name])


class KafkaHarness(ServerHarness):
    def __init__(self, bootstrap: str, secured: SecuredAddress | None = None) -> None:
        """`bootstrap` is in the clear; the log is reached there too, if not by `secured`."""
        super().__init__("kafka", bootstrap, secured=secured)

    @property
    def bootstrap(self) -> str | None:
        return self._address

    async def trim(self, partition: Partition, offset: int) -> None:
        await asyncio.to_thread(self._trim, partition, offset)

    def _trim(self, partition: Partition, offset: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._address)
        try:
            name = self.namespace + partition.topic
            admin.delete_records({TopicPartition(name, partition.index): offset})
        finally:
            admin.close()


def opened_log(
    kind: str, place: SecuredAddress, namespace: str
) -> AbstractAsyncContextManager[MessageLog]:
    """The log of that kind there."""
    if kind == "kafka":
        return kafka_log(place.bootstrap, namespace=namespace, security=place.security)
    return postgres_log(place.bootstrap, namespace=namespace)
