"""The history of metrics adds up to the counters and to what the receiver saw, whatever dies."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.accounts import Mixed, agree
from tests.e2e.events import some_events
from tests.e2e.service import Service, eventually, has_all, running
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "github.events"
PARTS = ((0, 40), (40, 110), (110, 150), (150, None))
FAILED = ("codes4xx", "codes5xx", "codesOther", "timeouts", "otherErrors")


async def history(service: Service, path: str, step: str) -> dict[str, int]:
    """The sums of all steps since before the test, of messages and of failed requests."""
    answer = await service.http.get(f"{path}/metrics/history", params={"step": step, "from": "-1d"})
    points: list[dict[str, Any]] = answer.raise_for_status().json()["points"]
    messages = ("published", "delivered", "discarded", "filtered")
    sums = {name: sum(each.get(name, 0) for each in points) for name in messages}
    return sums | {name: sum(each["failed"][name] for each in points) for name in FAILED}


async def delivered(service: Service, path: str, *, at_least: int) -> bool:
    return int((await service.metrics(path))["delivered"]) >= at_least


async def recorded(configuration: Mapping[str, str], *, at_least: int) -> bool:
    """Return whether a minute with so many deliveries, and those before, is recorded."""
    url = configuration["ANGELIA_DATABASE_URL"]
    query = "SELECT coalesce(max(delivered), 0) FROM metrics_recorded"
    async with await psycopg.AsyncConnection.connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return int(row[0]) >= at_least


@ONE_LOG
@pytest.mark.long  # a minute has to pass by until it is recorded
async def test_a_history_counts_each_message_once_whatever_dies(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    mixed = Mixed(events.refused, delay=0.01)
    async with Subscriber(mixed) as receiver, running(configuration, logs) as service:
        api, worker = service.processes
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "all", receiver.url, messageBackoff=50, inFlightMax=4)
        parts = [events.bodies[i:j] for i, j in PARTS]
        messages = await service.publish_all(TOPIC, parts[0])
        await eventually(partial(delivered, service, path, at_least=1))
        # A worker dies with messages on their way; another one continues.
        messages |= await service.publish_all(TOPIC, parts[1])
        await worker.kill()
        await service.worker()
        await eventually(partial(delivered, service, path, at_least=40))
        # The process that records dies after a minute was recorded, and before the next one is.
        await eventually(partial(recorded, configuration, at_least=1))
        messages |= await service.publish_all(TOPIC, parts[2])
        await api.kill()
        await service.api()
        messages |= await service.publish_all(TOPIC, parts[3])
        await has_all(receiver, messages)
        refused = [each for each, body in messages.items() if body in events.refused]
        good = len(messages) - len(refused)
        await agree(service, path, delivered=good, refused=refused)
        metrics = await service.metrics(path)
        found = [await history(service, path, step) for step in ("minute", "hour", "day")]
        of_topic = await history(service, f"/topics/{TOPIC}", "minute")
    statuses = [status for each in mixed.answers.values() for _, status in each]
    for sums in (*found, of_topic):
        assert (sums["delivered"], sums["discarded"], sums["filtered"]) == (good, len(refused), 0)
        assert sums["delivered"] == metrics["delivered"]
        # What the killed worker counted last is missing, and nothing counts twice.
        assert len(refused) - len(parts[1]) <= sums["codes4xx"] <= statuses.count(400)
        assert 0 < sums["codes5xx"] <= statuses.count(503)
    assert of_topic["published"] == len(messages)
    assert len({tuple(sorted(sums.items())) for sums in found}) == 1
