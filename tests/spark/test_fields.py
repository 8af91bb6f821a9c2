"""What failing messages have in common and others have not."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from app.domain.access.audit import Action, Change
from app.domain.access.keys import EVERYBODY
from app.domain.insight.analytics import DistinguishingField
from app.domain.job import JobKind, JobScope
from app.services.insight.analytics import AnalyticsService, Question
from app.storage.access.audit import AuditRepository
from app.storage.discards.undelivered import UndeliveredRepository
from spark.jobs import undelivered_analytics
from spark.transforms.fields import KEPT_MAX, distinguishing, features_of, with_fields
from spark.transforms.undelivered import clustered, described
from tests.integration.storage.builders import TOPIC
from tests.spark.discards import a_discard, frame, rows_of
from tests.spark.retransmissions import ONE_LOG, STREAM, Bench
from tests.spark.taking import taken

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

FEATURES = {
    '{"a": 1, "b": {"c": "x", "d": {"e": 1}}}': ["a", "a=1", "b", "b.c", "b.c=x", "b.d"],
    '{"a": null, "l": [1], "t": "' + "x" * 50 + '"}': ["a", "l", "t"],
    '{"a=b": 1, "' + "n" * 70 + '": 2, "c": 3}': ["c", "c=3"],
    "{}": [],
    "[1]": [],
    "no json": [],
    "": [],
}


def test_a_message_has_its_fields_and_their_short_values(spark: SparkSession) -> None:
    bodies = spark.createDataFrame([(body,) for body in FEATURES], "body string")
    found = rows_of(bodies.select("body", features_of(F.col("body")).alias("features")), "*")
    assert dict(found) == FEATURES


def others(spark: SparkSession, *bodies: dict[str, Any], topic: str = TOPIC) -> DataFrame:
    rows = [(topic, json.dumps(body)) for body in bodies]
    made = spark.createDataFrame(rows, "topic string, body string")
    return made.select("topic", features_of(F.col("body")).alias("features"))


def found_in(
    spark: SparkSession, failing: Sequence[dict[str, Any]], passing: DataFrame
) -> Sequence[dict[str, Any]]:
    rows = [
        a_discard(message_id=f"{n}", body=json.dumps(body).encode(), status=None)
        for n, body in enumerate(failing)
    ]
    discards = described(frame(spark, rows))
    clusters = clustered(discards)
    fields = distinguishing(clusters, failing=discards, passing=passing)
    [(text,)] = rows_of(with_fields(clusters, fields), "fields")
    said: Sequence[dict[str, Any]] = json.loads(text)
    return said


def test_the_field_that_all_failing_messages_lack_and_others_have_comes_first(
    spark: SparkSession,
) -> None:
    failing = [{"id": n, "customer": {"name": "x"}, "new": n} for n in range(10)]
    passing = [{"id": n, "customer": {"id": n, "name": "x"}} for n in range(20)]
    found = found_in(spark, failing, others(spark, *passing))
    assert [(each["feature"], each["present"]) for each in found] == [
        ("new", True), ("customer.id", False),
    ]  # fmt: skip
    assert [(each["support"], each["among"], each["lift"]) for each in found] == [(1, 0, 2)] * 2


def test_a_value_distinguishes_and_what_is_as_frequent_among_others_does_not(
    spark: SparkSession,
) -> None:
    failing = [{"country": "PL", "kind": "a", "only": n} for n in range(20)]
    mixed = [{"country": "DE", "kind": "a", "only": n} for n in range(18)]
    mixed += [{"country": "PL", "kind": "b", "only": n} for n in range(2)]
    [first] = found_in(spark, failing, others(spark, *mixed))
    assert (first["feature"], first["support"], first["among"]) == ("country=PL", 1, 0.1)


def test_without_messages_of_the_topic_that_passed_nothing_distinguishes(
    spark: SparkSession,
) -> None:
    assert found_in(spark, [{"a": 1}], others(spark, {"b": 1}, topic="shop.others")) == []
    discards = described(frame(spark, [a_discard()]))
    assert rows_of(with_fields(clustered(discards), None), "fields") == [("[]",)]


def test_few_fields_are_kept(spark: SparkSession) -> None:
    many = {f"new{n}": None for n in range(2 * KEPT_MAX)}
    found = found_in(spark, [many], others(spark, {"a": 1}))
    assert len(found) == KEPT_MAX


@ONE_LOG
async def test_failures_name_the_change_of_the_schema_and_the_messages_that_it_concerns(
    bench: Bench,
) -> None:
    good = [b'{"customer": {"id": %d}, "country": "PL"}' % n for n in range(20)]
    bad = [b'{"customer": {"name": "%d"}, "country": "PL"}' % n for n in range(5)]
    await bench.publish(*good)
    positions = await bench.publish(*bad)
    before = {"schema": "{}", "schemaVersion": 1}
    change = Change(
        action=Action.UPDATED, kind="topic", name=TOPIC, before=before,
        after={"schema": '{"type": "object"}', "schemaVersion": 2},
    )  # fmt: skip
    async with bench.database.transaction() as session:
        await AuditRepository(session).add(EVERYBODY, change)
    now = datetime.now(UTC)
    discards = [
        each
        for position, body in zip(positions, bad, strict=True)
        for each in await bench.discard(position, body=body, message_id=f"m-{body.decode()}")
    ]
    async with bench.database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    scope = JobScope(start=now - timedelta(hours=1), end=now + timedelta(hours=1))
    job = await taken(bench.database, JobKind.UNDELIVERED_ANALYTICS, scope)
    result = await asyncio.to_thread(undelivered_analytics.run, bench.spark, bench.work(job))
    assert await bench.finished(job, result)
    _, [cluster] = await AnalyticsService(bench.database).failures(Question(limit=10))
    without = DistinguishingField(
        field="customer.id", present=False, value=None, support=1.0, passing=0.0, lift=2.0
    )
    assert without in cluster.fields
    assert "only messages with" in cluster.cause
    assert "one subscription: a change of schema of shop.orders at" in cluster.cause
    assert cluster.cause.endswith("(schema version 2)")
