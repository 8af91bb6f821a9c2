"""New subscriptions that begin with history, while publishing goes on, on both logs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from tests.e2e.service import Service, created, eventually, running
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "backfill.orders"
PARTITIONS = 4
PUBLISHERS = 8
BEFORE = 400
# Of what comes meanwhile so much has come before the subscriptions are there, and after.
MEANWHILE = 200


class Published:
    """The ids of what is published without a pause."""

    def __init__(self, service: Service) -> None:
        self.ids: list[str] = []
        self._service = service
        self._enough = asyncio.Condition()
        self._ending = False

    async def go_on(self) -> None:
        while not self._ending:
            self.ids.append(await self._service.publish(TOPIC, b'"live"'))
            async with self._enough:
                self._enough.notify_all()

    async def more(self, count: int) -> None:
        """Wait until `count` more are there."""
        wanted = len(self.ids) + count
        async with self._enough:
            await self._enough.wait_for(lambda: len(self.ids) >= wanted)

    def end(self) -> None:
        """Nothing new from now on; what is under way is still published."""
        self._ending = True


@asynccontextmanager
async def publishing(service: Service) -> AsyncIterator[Published]:
    """Messages without a pause, in any partition, until the block ends."""
    published = Published(service)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(PUBLISHERS):
            tasks.create_task(published.go_on())
        try:
            yield published
        finally:
            published.end()


async def subscribe_from(service: Service, name: str, endpoint: str, *, place: str) -> str:
    body = {
        "name": name,
        "endpoint": endpoint,
        "owner": {"source": "Plaintext", "id": "tests"},
        "subscriptionPolicy": {"rate": 100_000, "requestTimeout": 20_000, "adaptiveRate": False},
        "startFrom": place,
    }
    created(await service.http.post(f"/topics/{TOPIC}/subscriptions", json=body))
    return f"/topics/{TOPIC}/subscriptions/{name}"


async def has_no_lag(service: Service, path: str) -> bool:
    return bool((await service.metrics(path))["lag"] == 0)


def a_moment_later() -> datetime:
    """A time that is later than that of every message by now; it is over when it is answered."""
    moment = datetime.now(UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) < moment:
        pass
    return moment


@ONE_LOG
async def test_history_comes_first_then_what_is_new_without_a_gap_and_none_twice(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs) as service,
        Subscriber() as all_there_was,
        Subscriber() as since_then,
    ):
        await service.topic(TOPIC, partitions=PARTITIONS)
        bodies = [(b"%d" % number, f"{number}") for number in range(BEFORE)]
        before = await service.publish_all(TOPIC, bodies)
        moment = a_moment_later().isoformat()
        async with publishing(service) as published:
            await published.more(MEANWHILE)
            every = await subscribe_from(service, "every", all_there_was.url, place="earliest")
            late = await subscribe_from(service, "late", since_then.url, place=moment)
            await published.more(MEANWHILE)
        live = Counter(published.ids)
        for path, count in ((every, len(before) + live.total()), (late, live.total())):
            metrics = await service.accounted(path, count)
            assert metrics["delivered"] == count
            await eventually(partial(has_no_lag, service, path))
    service.assert_once(all_there_was.message_ids, [*before, *live])
    service.assert_once(since_then.message_ids, live)
