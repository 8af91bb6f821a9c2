"""A new subscription whose history begins in the archive: real processes and Spark, both logs."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from app.domain.message import Partition
from tests.e2e.service import Service, created, eventually
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG
from tests.spark.test_archiving import STORAGE, job_done
from tests.spark.test_retransmitting import MARK, TOPIC, a_runner, ended, harness_of

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
PIECE = 90
BODY = {
    "name": "late",
    "owner": {"source": "Plaintext", "id": "tests"},
    "subscriptionPolicy": {"rate": 100_000, "requestTimeout": 20_000, "adaptiveRate": False},
    "startFrom": "-6h",
}


async def published(service: Service, name: str) -> Counter[str]:
    """Messages of that name; their ids."""
    bodies = [(f'"{name} {n}"'.encode(), f"{n}") for n in range(PIECE)]
    return Counter((await service.publish_all(TOPIC, bodies)).keys())


async def half_lost(configuration: Mapping[str, str]) -> dict[int, int]:
    """Have the log lose half of what it has in each partition; where these begin then."""
    harness = harness_of(configuration)
    partitions = [Partition(TOPIC, index) for index in range(PARTITIONS)]
    async with harness.opened() as log:
        bounds = await log.bounds(partitions)
    begin = {each: bounds[each].end // 2 for each in partitions}
    for partition, offset in begin.items():
        await harness.trim(partition, offset)

    async def is_lost() -> bool:
        seen = await log.bounds(partitions)
        return {each: bound.start for each, bound in seen.items()} == begin

    async with harness.opened() as log:
        await eventually(is_lost)
    return {partition.index: offset for partition, offset in begin.items()}


async def subscribed(
    service: Service,
    endpoint: str,
    **settings: Any,  # noqa: ANN401 - any JSON
) -> httpx.Response:
    body = {**BODY, "endpoint": endpoint, **settings}
    return created(await service.http.post(f"/topics/{TOPIC}/subscriptions", json=body))


@pytest.mark.long
@ONE_LOG
async def test_history_begins_in_the_archive_and_goes_on_in_the_log_without_a_gap_and_none_twice(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with Service(configuration, logs) as service, Subscriber() as receiver:
        await service.api()
        await service.topic(TOPIC, partitions=PARTITIONS, offlineStorage=STORAGE)
        every = await published(service, "old")
        async with a_runner(spark, configuration, tmp_path):
            await job_done(service, TOPIC)
        begin = await half_lost(configuration)
        # These the archive does not have.
        every += await published(service, "newer")
        answer = await subscribed(service, receiver.url, state="SUSPENDED")
        where, history = answer.headers["Location"], answer.json()["history"]
        places = {each["partition"]: each["toOffset"] for each in history["offsets"]}
        assert (places, {each["offset"] for each in history["offsets"]}) == (begin, {0})
        assert history["gone"] == 0
        assert "angelia spark" in history["waitingFor"]
        every += await published(service, "live")
        await service.worker()
        sending = f"{where}/retransmissions/{history['retransmission']}"

        async def is_chosen() -> bool:
            return bool((await service.http.get(sending)).json()["state"] == "SENDING")

        async with a_runner(spark, configuration, tmp_path):
            await eventually(is_chosen)
        assert receiver.received == []
        await service.set_state(where, "ACTIVE")
        seen = await ended(service, sending)
        metrics = await service.accounted(where, every.total())
    from_archive = sum(begin.values())
    counts = seen["counts"]
    assert (counts["matched"], counts["archived"], counts["gone"]) == (from_archive,) * 2 + (0,)
    assert (metrics["delivered"], metrics["lag"]) == (every.total(), 0)
    assert Counter(receiver.message_ids) == every
    assert sum(MARK in each.headers for each in receiver.received) == from_archive
