"""Ten runners are killed at random moments of retransmissions, on Kafka with an archive."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract.logs import eventually
from tests.e2e.chosen import ends_of
from tests.e2e.service import Service
from tests.fakes.subscriber import Subscriber
from tests.servers.spark_kafka import jars
from tests.spark.gates import a_gate, moments
from tests.spark.selections import requested
from tests.spark.test_archiving import STORAGE, job_done
from tests.spark.test_backfill_archived import PARTITIONS, half_lost
from tests.spark.test_retransmitting import (
    TOPIC,
    a_runner,
    came_again,
    ended,
    new_entries,
    once,
    published_at_once,
    subscribed,
)
from tests.spark.test_runner_process import PATIENCE_S, runner

# Eleven runners start, each with a Spark of its own.
pytestmark = [pytest.mark.timeout(2400), pytest.mark.long]

PARTS = 5
# Of one retransmission so many runners are killed: a second one finds what the first has left.
KILLS_OF_ONE = 2
KILLS = PARTS * KILLS_OF_ONE
MESSAGES = 600
SEED = 3
# Each choice has more rows than this, and more archived ones.
ROWS = 30


def chosen(part: int) -> range:
    """The numbers of the messages that this retransmission sends: none is in two of them."""
    return range(part, MESSAGES, PARTS)


async def request(service: Service, path: str, part: int) -> str:
    """Ask for it. The numbers are not consecutive, so there are many rows in the choice."""
    last_digits = {"type": "jsonpath", "path": "$.n", "matcher": f"[0-9]*[{part}{part + 5}]"}
    body = {"only": "all", "from": "-6h", "share": 1, "filter": last_digits}
    return await requested(service, path, body)


def environment(configuration: Mapping[str, str], place: Path) -> dict[str, str]:
    """The settings of a runner process on that service's log."""
    connectors = str(jars()[0].parent)
    return {
        **configuration,
        "ANGELIA_SPARK_OUTPUT": str(place),
        "ANGELIA_SPARK_JARS": connectors,
    }


async def until_done(service: Service, where: str) -> None:
    """Wait for a runner that has only just been started."""

    async def is_done() -> bool:
        seen = (await service.http.get(where)).raise_for_status().json()
        if seen["state"] in {"FAILED", "CANCELLED"}:
            raise AssertionError(f"{seen['state']}: {seen.get('reason')}")
        return bool(seen["state"] == "DONE")

    await eventually(is_done, seconds=PATIENCE_S)


async def sent_while_runners_die(
    service: Service, configuration: Mapping[str, str], path: str, *, place: Path
) -> Sequence[str]:
    """Where the retransmissions are seen, all of which are done."""
    url, settings = configuration["ANGELIA_DATABASE_URL"], environment(configuration, place)
    sent: list[str] = []
    async with a_gate(url) as gate:
        for kill, moment in enumerate(moments(SEED, KILLS, rows=ROWS)):
            is_first = kill % KILLS_OF_ONE == 0
            if not is_first:
                await gate.close_at(moment)
            async with runner(url, place, **settings) as process:
                if is_first:
                    for last in sent[-1:]:
                        await until_done(service, last)
                    await gate.close_at(moment)
                    sent.append(await request(service, path, len(sent)))
                await gate.reached(seconds=PATIENCE_S)
                process.kill()
                assert await process.wait() == -signal.SIGKILL
            await gate.open()
        async with runner(url, place, **settings):
            await until_done(service, sent[-1])
    return sent


async def test_ten_runners_killed_at_random_moments_leave_out_nothing_and_double_nothing(
    spark: SparkSession, on_kafka: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with Service(on_kafka, logs) as service, Subscriber() as receiver:
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=PARTITIONS, offlineStorage=STORAGE)
        path = await subscribed(service, "billing", receiver.url)
        await published_at_once(service, range(MESSAGES))
        await service.accounted(path, MESSAGES)
        async with a_runner(spark, on_kafka, tmp_path):
            await job_done(service, TOPIC)
        await half_lost(on_kafka)
        before = sum(await ends_of(service, path))
        sent = await sent_while_runners_die(service, on_kafka, path, place=tmp_path)
        for part, where in enumerate(sent):
            seen = await ended(service, where)
            assert came_again(receiver, seen["id"]) == once(chosen(part))
            assert seen["counts"]["archived"] > 0
            counts = [seen["counts"][name] for name in ("matched", "written", "delivered", "gone")]
            assert counts == [len(chosen(part))] * 3 + [0]
        # In the log, too, each is once.
        assert sum(await ends_of(service, path)) - before == MESSAGES
        async with a_runner(spark, on_kafka, tmp_path):
            [entry] = await new_entries(service, path)
    sums = entry["sums"]
    assert (entry["proved"], sums["missing"], sums["resent"]) == (True, 0, MESSAGES)
