"""A worker is killed while it back-fills a new subscription from archive and log, on Kafka."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.domain.message import Partition
from tests.e2e.chosen import ends_of
from tests.e2e.service import Service, eventually
from tests.e2e.test_crashes import lag_of
from tests.fakes.subscriber import Reply, Subscriber
from tests.spark.test_archiving import STORAGE, job_done
from tests.spark.test_backfill_archived import (
    PARTITIONS,
    half_lost,
    published,
    subscribed,
)
from tests.spark.test_retransmitting import JOB_S, MARK, TOPIC, a_runner, ended, harness_of

pytestmark = [pytest.mark.timeout(1000), pytest.mark.long]

LATENCY_S = 0.05
# At half of this rate, the archived messages take more than a second.
POLICY = {"rate": 200, "inflightSize": 20, "requestTimeout": 20_000, "adaptiveRate": False}


async def read_of(service: Service, configuration: Mapping[str, str], path: str) -> int:
    """How many records of the log the subscription has finished, as it has committed."""
    partitions = [Partition(TOPIC, index) for index in range(PARTITIONS)]
    async with harness_of(configuration).opened() as log:
        bounds = await log.bounds(partitions)
    return sum(bound.end - bound.start for bound in bounds.values()) - await lag_of(service, path)


async def test_each_message_comes_and_twice_only_what_was_not_committed_when_the_worker_died(
    spark: SparkSession, on_kafka: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    slow = Reply(delay=LATENCY_S)
    async with Service(on_kafka, logs) as service, Subscriber(slow) as receiver:
        await service.api()
        await service.topic(TOPIC, partitions=PARTITIONS, offlineStorage=STORAGE)
        every = await published(service, "old")
        async with a_runner(spark, on_kafka, tmp_path):
            await job_done(service, TOPIC)
            from_archive = sum((await half_lost(on_kafka)).values())
            every += await published(service, "newer")
            answer = await subscribed(
                service, receiver.url, state="SUSPENDED", subscriptionPolicy=POLICY
            )
            path, history = answer.headers["Location"], answer.json()["history"]
            where = f"{path}/retransmissions/{history['retransmission']}"

            async def is_chosen() -> bool:
                return bool((await service.http.get(where)).json()["state"] == "SENDING")

            await eventually(is_chosen, within_s=JOB_S)
        await service.set_state(path, "ACTIVE")
        doomed = await service.worker()
        # In the midst of what comes from the archive, and of what the log has.
        await receiver.wait_until(
            lambda: sum(MARK in each.headers for each in receiver.received) > from_archive // 3
        )
        await doomed.kill()
        came = len(receiver.received)
        finished = await read_of(service, on_kafka, path)
        every += await published(service, "live")
        await service.worker()
        counts = (await ended(service, where))["counts"]

        async def all_passed() -> bool:
            return await lag_of(service, path) == 0

        await eventually(all_passed)
        copies = sum(await ends_of(service, path)) - every.total()
    ids = Counter(receiver.message_ids)
    assert ids.keys() == every.keys()
    # Sent, and not committed by then.
    twice = ids.total() - every.total()
    print(f"{came} had come, {finished} were committed, {twice} came twice")  # noqa: T201 - a figure to read with -rP
    assert twice <= came - finished
    assert copies == counts["written"] == counts["archived"] == from_archive
