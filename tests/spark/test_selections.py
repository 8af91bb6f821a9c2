"""Each way to select messages, and combinations: exactly these come again, on a real log and Spark.

The test knows the truth from its own publications and its own answers. A dry run of each request
must foresee the same number.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.service import Service
from tests.e2e.test_backfill import a_moment_later
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG
from tests.spark.selections import (
    RED,
    SMALL_AND_ODD,
    Case,
    History,
    Proof,
    as_it_says,
    numbers_again,
)
from tests.spark.test_retransmitting import (
    TOPIC,
    a_runner,
    lose_traces,
    never_read,
    retransmitted,
    subscribed,
)

pytestmark = [pytest.mark.timeout(1000), ONE_LOG]

MESSAGES = 120


@pytest.fixture
async def proof(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> AsyncIterator[Proof]:
    """A service with a topic, a subscription whose subscriber is picky, and a runner."""
    async with (
        Service(configuration, logs) as service,
        Subscriber(as_it_says) as receiver,
        a_runner(spark, configuration, tmp_path),
    ):
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=4, propagatedHeaders=["Colour"])
        path = await subscribed(service, "billing", receiver.url)
        history = History(service, seed=1)
        yield Proof(service=service, path=path, receiver=receiver, history=history)


async def published(proof: Proof, count: int) -> None:
    """Publish so many, and wait until each is delivered, or recorded as discarded."""
    await proof.history.grow(count)
    await proof.service.accounted(proof.path, len(proof.history.messages))
    refused = proof.history.numbers(lambda each: each.is_refused)
    await proof.service.undelivered(proof.path, len(refused))


async def test_of_all_messages_exactly_those_that_match_every_field_come_again(
    proof: Proof,
) -> None:
    await published(proof, MESSAGES)
    proof.receiver.reply = Reply()
    some = proof.history.some(60)
    ids = proof.history.ids(some)
    red = Case(
        body={"only": "all", "keys": ["k0", "k1"], "filter": RED},
        wanted=lambda each: each.key in {"k0", "k1"} and each.colour == "red",
    )
    every_field = Case(
        body={"only": "all", "keys": ["k0", "k2"], "messageIds": ids, "filter": SMALL_AND_ODD},
        wanted=lambda each: (
            each.key in {"k0", "k2"} and each.number in some and each.is_small_and_odd
        ),
    )
    by_key = Case(
        body={"only": "all", "keys": ["k1", "k3", "none"]},
        wanted=lambda each: each.key in {"k1", "k3"},
    )
    by_id = Case(body={"only": "all", "messageIds": ids}, wanted=lambda each: each.number in some)
    await proof.of_all([red, every_field, by_key, by_id])


async def test_of_discards_exactly_those_that_match_and_were_not_sent_again_come_again(
    proof: Proof,
) -> None:
    await published(proof, MESSAGES // 2)
    moment = a_moment_later().isoformat()
    await published(proof, MESSAGES // 2)
    proof.receiver.reply, proof.once = Reply(), True
    await redriven(proof, moment)
    some = proof.history.some(MESSAGES // 2)
    by_id = Case(
        body={"only": "undelivered", "statusCodes": [404], "messageIds": proof.history.ids(some)},
        wanted=lambda each: each.answer == 404 and each.number in some,
    )
    red = Case(
        body={
            "only": "undelivered",
            "statusCodes": [400, 404],
            "keys": ["k0", "k1"],
            "filter": RED,
        },
        wanted=lambda each: (
            each.answer in {400, 404} and each.key in {"k0", "k1"} and each.colour == "red"
        ),
    )
    early = Case(
        body={"only": "undelivered", "reason": "CODE:422", "to": moment},
        wanted=lambda each: each.answer == 422 and each.number < MESSAGES // 2,
    )
    rest = Case(body={"only": "undelivered"}, wanted=lambda each: each.is_refused)
    await proof.of_each([by_id, red, early, rest])
    assert proof.sent == proof.history.numbers(lambda each: each.is_refused)


async def redriven(proof: Proof, moment: str) -> None:
    """`only: discarded` by its own fields, which needs no Spark."""
    some = proof.history.some(MESSAGES // 2)
    by_id = Case(
        body={"statusCodes": [404, 422], "messageIds": proof.history.ids(some)},
        wanted=lambda each: each.answer in {404, 422} and each.number in some,
    )
    by_text = Case(
        body={"statusCodes": [400], "key": "k1", "text": '"large"'},
        wanted=lambda each: each.answer == 400 and each.key == "k1" and each.size == "large",
    )
    late = Case(
        body={"reason": "code:404", "from": moment},
        wanted=lambda each: each.answer == 404 and each.number >= MESSAGES // 2,
    )
    for case in (by_id, by_text, late):
        await compared_with_redrive(proof, case)


async def compared_with_redrive(proof: Proof, case: Case) -> None:
    wanted = proof.history.numbers(case.wanted) - proof.sent
    path, body = f"{proof.path}/retransmission", {"only": "discarded", **case.body}
    foreseen = await proof.service.http.post(path, json={**body, "dryRun": True})
    sent = (await proof.service.http.post(path, json=body)).raise_for_status().json()
    await proof.receiver.wait_until(
        lambda: len(numbers_again(proof.receiver, sent["id"])) >= len(wanted)
    )
    assert foreseen.raise_for_status().json()["count"] == sent["count"] == len(wanted) > 0
    assert numbers_again(proof.receiver, sent["id"]) == sorted(wanted), case.body
    proof.sent |= wanted


async def test_of_missing_messages_exactly_those_that_match_come_again(
    proof: Proof, configuration: Mapping[str, str]
) -> None:
    proof.receiver.reply, proof.once = Reply(), True
    await proof.history.grow(MESSAGES // 2)
    await proof.service.accounted(proof.path, MESSAGES // 2)
    # All traces are recorded then, so that none comes after some are lost.
    nothing = await retransmitted(proof.service, proof.path, only="missing", dryRun=True)
    assert nothing["counts"]["matched"] == 0
    # The first messages of a partition would be older than its first trace.
    untraced = set(range(MESSAGES // 3, MESSAGES // 2))
    await lose_traces(configuration, proof.history.ids(untraced))
    async with never_read(proof.service, configuration, proof.path):
        await proof.history.grow(MESSAGES // 4)
    passed = set(range(MESSAGES // 2, len(proof.history.messages)))
    missing, some = untraced | passed, proof.history.some(MESSAGES // 2)
    ids = proof.history.ids(some)
    by_id = Case(
        body={"only": "missing", "messageIds": ids, "filter": RED},
        wanted=lambda each: each.number in missing & some and each.colour == "red",
    )
    by_key = Case(
        body={"only": "missing", "keys": ["k1", "k2"]},
        wanted=lambda each: each.number in missing and each.key in {"k1", "k2"},
    )
    rest = Case(body={"only": "missing"}, wanted=lambda each: each.number in missing)
    await proof.of_each([by_id, by_key, rest])
    assert proof.sent == missing
