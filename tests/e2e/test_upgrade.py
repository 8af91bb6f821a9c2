"""The version before and this one side by side: all processes are replaced, there and back."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.service import PATIENCE_S, Process, Service, eventually, has_all
from tests.e2e.test_crashes import TOPIC
from tests.e2e.test_ordering import KEYS, REFUSED, Unreliable, fails
from tests.e2e.test_scaling import PARTITIONS, owners
from tests.e2e.test_worker_processes import pid_of
from tests.fakes.subscriber import Subscriber
from tests.servers.warm import WarmParent

WORKERS: Final = 2
# A divisor of the number of keys: each key has one publisher, who keeps its order.
PUBLISHERS: Final = 4
# So many messages are not answered for good, while there is a load.
UNSETTLED: Final = 40
# At each moment some messages wait for a retry, before others that are finished.
POLICY: Final = {"messageBackoff": 1_000, "inflightSize": 200, "messageTtl": 600}


class Load:
    """Publishes to the API processes of `apis` in turn, as fast as messages are settled."""

    def __init__(self, api: Service, unreliable: Unreliable, receiver: Subscriber) -> None:
        self.apis = [api]
        self.published: set[int] = set()
        self._unreliable = unreliable
        self._receiver = receiver
        self._asked = Counter[str]()
        self._ends = False

    async def publish(self, first: int) -> None:
        """Publish the messages of one publisher, one after the other, until the end."""
        for turn in count():
            number = first + turn * PUBLISHERS
            await self._receiver.wait_until(partial(self._may_publish, number), PATIENCE_S)
            if self._ends:
                return
            await self._published(number, self.apis[turn % len(self.apis)])

    def end(self) -> None:
        self._ends = True

    async def leave(self, api: Service) -> None:
        """Publish there no more, and wait for the answers that are under way."""
        self.apis.remove(api)

        async def left() -> bool:
            return self._asked[api.url] == 0

        await eventually(left)

    def _may_publish(self, number: int) -> bool:
        return self._ends or number < len(self._unreliable.settled) + UNSETTLED

    async def _published(self, number: int, api: Service) -> None:
        self._asked[api.url] += 1
        headers = {"Partition-Key": f"key-{number % KEYS}"}
        await api.publish(TOPIC, json.dumps({"n": number}).encode(), **headers)
        self._asked[api.url] -= 1
        self.published.add(number)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The processes of one version that run now."""

    service: Service
    api: Process
    workers: list[Process]


class Upgrade:
    """Replaces processes by those of another version, and looks how both get on."""

    def __init__(self, load: Load, path: str, receiver: Subscriber) -> None:
        self._load = load
        self._path = path
        # Of topics that are made while both versions run.
        self._receiver = receiver
        self._numbers = count()

    async def replaced(self, fleet: Fleet, by: Service) -> Fleet:
        """Replace the workers one after the other, then the API process: docs/deploy.md."""
        workers = [await self._worker_replaced(each, fleet.service, by) for each in fleet.workers]
        api = await by.api()
        self._load.apis.append(by)
        await self._manages(by)
        await self._load.leave(fleet.service)
        assert await fleet.api.stop() == 0
        return Fleet(by, api, workers)

    async def _worker_replaced(self, worker: Process, api: Service, by: Service) -> Process:
        assert await worker.stop() == 0
        new = await by.worker()

        async def has_its_part() -> bool:
            found = await owners(by.configuration)
            return len(found) == PARTITIONS and new.pid in map(pid_of, found.values())

        await eventually(has_its_part)
        await self._manages(api)
        return new

    async def _manages(self, api: Service) -> None:
        """Have an API process change a subscription, and make one that gets its first message."""
        number = next(self._numbers)
        changed = await api.http.patch(self._path, json={"description": f"{number}"})
        changed.raise_for_status()
        await api.applied(self._path)
        topic = await api.topic(f"shop.made-{number}", partitions=WORKERS * 4)
        await api.subscribe(topic, "s", self._receiver.url)
        await has_all(self._receiver, [await api.publish(topic, b"{}")])


@pytest.fixture
def unmigrated(configuration: Mapping[str, str], empty_postgres_url: str) -> Mapping[str, str]:
    """The configuration, with a database that no version has made tables in."""
    return {**configuration, "ANGELIA_DATABASE_URL": empty_postgres_url}


@pytest.mark.long  # needs git, and the history
@pytest.mark.parametrize("configuration", ["embedded", "kafka"], indirect=True)
async def test_each_process_is_replaced_under_load_there_and_back(
    unmigrated: Mapping[str, str], version_before: WarmParent, tmp_path: Path
) -> None:
    unreliable = Unreliable()
    async with AsyncExitStack() as stack:
        before, this = [
            await stack.enter_async_context(service)
            for service in (
                Service(unmigrated, folder(tmp_path / "before"), version_before),
                Service(unmigrated, folder(tmp_path / "this")),
            )
        ]
        receiver = await stack.enter_async_context(Subscriber(unreliable))
        other = await stack.enter_async_context(Subscriber())
        await before.migrate()
        fleet = await started(before)
        await before.topic(TOPIC, partitions=PARTITIONS)
        path = await before.subscribe(TOPIC, "s", receiver.url, **POLICY)
        (await before.http.patch(path, json={"ordering": "KEY"})).raise_for_status()
        await before.applied(path)
        load = Load(before, unreliable, receiver)
        upgrade = Upgrade(load, path, other)
        async with asyncio.TaskGroup() as tasks:
            for first in range(PUBLISHERS):
                tasks.create_task(load.publish(first))
            await receiver.wait_for(UNSETTLED, PATIENCE_S)
            await this.migrate()
            fleet = await upgrade.replaced(fleet, this)
            fleet = await upgrade.replaced(fleet, before)
            load.end()
        await all_came_in_order(load, unreliable, receiver)
        await counted(before, path, load.published)
        late = before.stood_still() or this.stood_still()
    # Attempts are counted through each replacement, and none is made again.
    assert late or attempts(receiver) == {n: attempts_of(n) for n in load.published}


def folder(path: Path) -> Path:
    path.mkdir()
    return path


async def started(service: Service) -> Fleet:
    api = await service.api()
    return Fleet(service, api, [await service.worker() for _ in range(WORKERS)])


async def all_came_in_order(load: Load, unreliable: Unreliable, receiver: Subscriber) -> None:
    def settled() -> bool:
        return unreliable.settled.keys() == load.published

    await receiver.wait_until(settled, PATIENCE_S)
    assert unreliable.too_early == []


async def counted(service: Service, path: str, published: set[int]) -> None:
    """Have the metrics and the list of undelivered messages say what became of all."""
    refused = published & set(REFUSED)
    metrics = await service.accounted(path, len(published))
    expected = (len(published) - len(refused), len(refused))
    assert (metrics["delivered"], metrics["discarded"]) == expected
    rows = await service.undelivered(path, len(refused))
    assert sorted(json.loads(each["message"])["n"] for each in rows) == sorted(refused)


def attempts(receiver: Subscriber) -> Counter[int]:
    return Counter(json.loads(each.body)["n"] for each in receiver.received)


def attempts_of(number: int) -> int:
    """How many the dice want."""
    return next(retry for retry in count() if not fails(number, retry)) + 1
