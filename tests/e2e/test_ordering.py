"""Order by key, over random failures and the death of a worker."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.e2e.service import PATIENCE_S, Process, Service, created, eventually, running
from tests.e2e.test_crashes import TOPIC
from tests.e2e.test_scaling import PARTITIONS, shared_by
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

KEYS = 48
PER_KEY = 15
COUNT = KEYS * PER_KEY
KILLED_AT = COUNT // 4
FAILING = 0.2
REFUSED = range(0, COUNT, 50)
LATENCY_S = 0.03
# What a timer of the receiver may be early by.
CLOCK_S = 0.002
# 20 % of failures in a row end sooner.
POLICY = {"messageBackoff": 50, "inflightSize": 200, "messageTtl": 600}


def fails(number: int, retry: int) -> bool:
    """Whether the receiver answers 500 to that attempt: by the dice, the same in every run."""
    return Random(f"{number}/{retry}").random() < FAILING


class Unreliable:
    """Answers as `fails` says, and sees what comes before its turn."""

    def __init__(self) -> None:
        # When each message was first answered for good.
        self.settled: dict[int, float] = {}
        self.too_early: list[str] = []

    def __call__(self, received: Received) -> Reply:
        number: int = json.loads(received.body)["n"]
        self.too_early += [
            f"{number} before {earlier}"
            for earlier in range(number % KEYS, number, KEYS)
            if self.settled.get(earlier, math.inf) > received.at + CLOCK_S
        ]
        failing = fails(number, received.retry_count)
        if not failing:
            self.settled.setdefault(number, received.at + LATENCY_S)
        good = 404 if number in REFUSED else 200
        return Reply(status=500 if failing else good, delay=LATENCY_S)


async def publish_in_order(service: Service) -> None:
    """All messages: of each key in the order of their numbers."""
    batch = [{"key": f"key-{n % KEYS}", "message": {"n": n}} for n in range(COUNT)]
    created(await service.http.post(f"/topics/{TOPIC}/batch?envelope=true", json=batch))


async def owner_of_most(service: Service, owners: Mapping[int, str]) -> Process:
    """The worker with the most partitions."""
    [(busiest, _)] = Counter(owners.values()).most_common(1)
    return next(each for each in service.processes if f"-{each.pid}-" in busiest)


@ONE_LOG
async def test_keys_keep_their_order_over_failures_and_the_death_of_a_worker(
    configuration: Mapping[str, str], logs: Path
) -> None:
    unreliable = Unreliable()
    async with (
        running(configuration, logs, workers=2) as service,
        Subscriber(unreliable) as receiver,
    ):
        await service.topic(TOPIC, partitions=PARTITIONS)
        path = await service.subscribe(TOPIC, "s", receiver.url, **POLICY)
        (await service.http.patch(path, json={"ordering": "KEY"})).raise_for_status()
        await service.applied(path)
        doomed = await owner_of_most(service, await shared_by(configuration, 2))
        await publish_in_order(service)
        await receiver.wait_for(KILLED_AT, PATIENCE_S)
        await doomed.kill()
        at_death = len(unreliable.settled)
        await receiver.wait_until(lambda: len(unreliable.settled) == COUNT, PATIENCE_S)
        await service.accounted(path, COUNT)

        async def refused_are_recorded() -> bool:
            # What was not committed when its worker died may be recorded twice.
            rows = await service.undelivered(path, len(REFUSED))
            return {json.loads(each["message"])["n"] for each in rows} == set(REFUSED)

        await eventually(refused_are_recorded)
    assert unreliable.too_early == []
    assert at_death < COUNT
