"""A retransmission is cancelled while Spark chooses its messages: real processes, a real Spark."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.service import Service, eventually
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG
from tests.spark.gates import Moment, a_gate
from tests.spark.selections import requested
from tests.spark.test_retransmitting import (
    JOB_S,
    MARK,
    TOPIC,
    a_runner,
    came_again,
    ended,
    once,
    published_at_once,
    subscribed,
)

pytestmark = [pytest.mark.timeout(600), ONE_LOG]

MESSAGES = 20
ALL = {"only": "all", "from": "-6h"}


async def seen_of(service: Service, where: str) -> dict[str, Any]:
    found: dict[str, Any] = (await service.http.get(where)).raise_for_status().json()
    return found


async def test_a_task_that_hangs_holds_up_neither_the_cancellation_nor_the_next_one(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with (
        Service(configuration, logs) as service,
        Subscriber() as receiver,
        a_runner(spark, configuration, tmp_path),
        a_gate(configuration["ANGELIA_DATABASE_URL"]) as gate,
    ):
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=4)
        path = await subscribed(service, "billing", receiver.url)
        await published_at_once(service, range(MESSAGES))
        await service.accounted(path, MESSAGES)
        await gate.close_at(Moment(table="retransmission_runs", write=1))
        where = await requested(service, path, ALL)
        await gate.reached(seconds=JOB_S)
        cancelled = (await service.http.delete(where)).raise_for_status().json()
        assert cancelled["state"] == "CANCELLED"
        job = f"/jobs/{cancelled['id']}"

        async def is_over() -> bool:
            return bool((await seen_of(service, job))["state"] == "CANCELLED")

        await eventually(is_over, within_s=JOB_S)
        over = datetime.fromisoformat((await seen_of(service, job))["endedAt"])
        took = over - datetime.fromisoformat(cancelled["endedAt"])
        print(f"the runner was free {took.total_seconds():.2f} s after the cancellation")  # noqa: T201 - a figure to read with -rP
        # The task of the first one still stands there.
        following = await ended(service, await requested(service, path, ALL))
        await gate.open()
        assert came_again(receiver, following["id"]) == once(range(MESSAGES))
    assert {each.headers.get(MARK) for each in receiver.received} == {None, following["id"]}
