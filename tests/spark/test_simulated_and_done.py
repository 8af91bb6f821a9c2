"""What a simulation foresees of other filters is what comes once they are set, to the message."""

from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from tests.e2e.service import Service, created
from tests.e2e.test_backfill import a_moment_later
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG
from tests.spark.selections import RED, SMALL_AND_ODD, History
from tests.spark.test_retransmitting import TOPIC, a_runner, ended

pytestmark = [pytest.mark.timeout(600), ONE_LOG]

MESSAGES = 120
BODY = {"owner": {"source": "Plaintext", "id": "tests"}, "startFrom": "-6h"}
POLICY = {"rate": 100_000, "requestTimeout": 20_000, "adaptiveRate": False}


async def subscribed(service: Service, name: str, endpoint: str, *, only: Mapping[str, str]) -> str:
    """A subscription with that filter, which begins with the history."""
    body = {
        **BODY,
        "name": name,
        "endpoint": endpoint,
        "filters": [dict(only)],
        "subscriptionPolicy": POLICY,
    }
    created(await service.http.post(f"/topics/{TOPIC}/subscriptions", json=body))
    return f"/topics/{TOPIC}/subscriptions/{name}"


async def test_what_is_foreseen_of_other_filters_is_what_comes_with_them(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with (
        Service(configuration, logs) as service,
        Subscriber() as receiver,
        Subscriber() as before,
        a_runner(spark, configuration, tmp_path),
    ):
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=4, propagatedHeaders=["Colour"])
        path = await subscribed(service, "billing", before.url, only=RED)
        history = History(service, seed=5)
        await history.grow(MESSAGES)
        # The last message is before the end of the simulated time: that of the request.
        a_moment_later()
        asked = await service.http.post(f"{path}/simulate", json={"filters": [SMALL_AND_ODD]})
        assert asked.status_code == 202, asked.text
        foreseen = (await ended(service, asked.headers["Location"]))["result"]
        tried = await subscribed(service, "tried", receiver.url, only=SMALL_AND_ODD)
        metrics = await service.accounted(tried, foreseen["matched"])
        red = history.numbers(lambda each: each.colour == "red")
        await service.accounted(path, len(red))
    wanted = history.numbers(lambda each: each.is_small_and_odd)
    assert sorted(orjson.loads(each.body)["n"] for each in receiver.received) == sorted(wanted)
    assert sorted(orjson.loads(each.body)["n"] for each in before.received) == sorted(red)
    assert (foreseen["read"], foreseen["matched"]) == (MESSAGES, len(wanted))
    assert metrics["delivered"] == len(wanted)
    assert foreseen["bytes"] == sum(len(each.body) for each in receiver.received)
    assert (foreseen["now"], foreseen["added"], foreseen["dropped"]) == (
        len(red), len(wanted - red), len(red - wanted),
    )  # fmt: skip
