"""Delivery in batches, through the whole service: a worker is killed, another asked to stop."""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from tests.e2e.service import PATIENCE_S, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

SIZE = 20
COUNT = 300
LATENCY_S = 0.05
HOUR_MS = 3_600_000


def fails_at_first(received: Received) -> Reply:
    """One batch in three fails once, the same in every run."""
    fails = received.retry_count == 0 and received.headers["hermes-batch-id"] < "5"
    return Reply(status=500 if fails else 200, delay=LATENCY_S)


def ids_in(requests: Iterable[Received]) -> list[str]:
    """The ids of the messages that were taken, as often as they were."""
    taken = [each for each in requests if fails_at_first(each).status == 200]
    return [message["metadata"]["id"] for each in taken for message in json.loads(each.body)]


@ONE_LOG
async def test_batches_lose_nothing_when_workers_are_killed_and_repeat_nothing_when_they_stop(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs, workers=0) as service,
        Subscriber(fails_at_first) as receiver,
    ):
        await service.topic(TOPIC, partitions=2)
        path = await service.subscribe(
            TOPIC, "s", receiver.url, batchSize=SIZE, batchTime=300, messageBackoff=50
        )
        (await service.http.patch(path, json={"deliveryType": "BATCH"})).raise_for_status()
        published = await service.publish_all(TOPIC, numbered(COUNT))
        doomed = await service.worker()
        await receiver.wait_for(4, PATIENCE_S)
        await doomed.kill()
        second = await service.worker()
        await service.accounted(path, COUNT)
        assert set(ids_in(receiver.received)) == set(published)

        # What follows waits in open batches when that worker stops.
        waits = {"subscriptionPolicy": {"batchTime": HOUR_MS}}
        (await service.http.patch(path, json=waits)).raise_for_status()
        before = len(receiver.received)
        published = await service.publish_all(TOPIC, numbered(SIZE, start=COUNT))
        # Which it does in time, however long they may wait.
        assert await second.stop() == 0
        await service.worker()
        soon = {"subscriptionPolicy": {"batchTime": 100}}
        (await service.http.patch(path, json=soon)).raise_for_status()
        await service.accounted(path, COUNT + SIZE)
    service.assert_once(ids_in(receiver.received[before:]), published)
    assert all(len(json.loads(each.body)) <= SIZE for each in receiver.received)
    named = sorted((each.headers["hermes-batch-id"], each.body) for each in receiver.received)
    bodies = [set(same) for _, same in groupby(named, key=lambda pair: pair[0])]
    assert all(len(each) == 1 for each in bodies)
