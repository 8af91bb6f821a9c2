from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from spark.transforms.undelivered import CLUSTERS_MAX, clustered, counted, described
from tests.spark.discards import NOON, a_discard, frame, rows_of

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

ERRORS = {
    "Message sending failed with status code:400": "Message sending failed with status code:400",
    "Connection refused by 10.1.2.3:8080": "Connection refused by <address>",
    "order 4711 of 2026-01-31T12:00:00.123Z is late": "order <n> of <time> is late",
    "no such id 123e4567-e89b-12d3-a456-426614174000": "no such id <id>",
    "bad digest deadbeef00112233": "bad digest <id>",
    'unknown field "amount" at 3,14': "unknown field <text> at <n>",
    "it's what we couldn't read: 'x y'": "it's what we couldn't read: <text>",
    "POST https://shop.example/a?b=1 took  31ms": "POST <url> took <n>ms",
    "defaced facade": "defaced facade",
    "a" * 300: "a" * 200,
    "": "",
}
SHAPES = {
    b'{"b": 1, "a": {"c": 2}}': "{a, b}",
    b'{"a": null, "b": []}': "{a, b}",
    b"{}": "{}",
    b"[1, 2]": "array",
    b"": "empty",
    b"\xff\xfe": "other",
    b'{"a": ': "other",
    b'{"a": 1}\x00': "other",
    b' {"a": 1}\n': "{a}",
    b'"text"': "other",
    rb'{"a\u0000b": 1, "c\ud800": 2}': "{a\N{REPLACEMENT CHARACTER}b, c?}",
}


def test_an_error_keeps_what_errors_of_its_kind_share(spark: SparkSession) -> None:
    discards = [
        a_discard(reason=reason, message_id=f"{number:02}") for number, reason in enumerate(ERRORS)
    ]
    errors = described(frame(spark, discards)).orderBy("message_id")
    assert [error for (error,) in rows_of(errors, "error")] == list(ERRORS.values())


def test_a_payload_has_the_shape_of_its_keys_or_says_what_else_it_is(spark: SparkSession) -> None:
    discards = [
        a_discard(body=body, message_id=f"{number:02}") for number, body in enumerate(SHAPES)
    ]
    discards.append(a_discard(message_id="99", body_hex=None, size=1_000_000))
    shapes = described(frame(spark, discards)).orderBy("message_id")
    assert [shape for (shape,) in rows_of(shapes, "shape")] == [*SHAPES.values(), "large"]


def test_discards_are_counted_by_topic_subscription_reason_status_and_hour(
    spark: SparkSession,
) -> None:
    late = NOON + timedelta(minutes=59, seconds=59, microseconds=999_999)
    discards = [
        a_discard(attempts=2, body=b"12345"),
        a_discard(attempts=3, body=b"123", discarded_at=late),
        # A duplicate of the first: the table has each discard once, and counts are not to guess.
        a_discard(attempts=2, body=b"12345"),
        a_discard(discarded_at=NOON + timedelta(hours=1), body=b"1"),
        a_discard(status=None, reason="Message TTL elapsed", body=b"1"),
        a_discard(subscription="audit", subscription_id="s-2", body=b"1"),
        a_discard(topic="shop.refunds", body=b"1"),
    ]
    counts = counted(described(frame(spark, discards)))
    found = rows_of(
        counts.orderBy("topic", "subscription", "reason", "hour"),
        "topic",
        "subscription",
        "status",
        "messages",
        "attempts",
        "volume",
    )
    assert found == [
        ("shop.orders", "audit", 400, 1, 1, 1),
        ("shop.orders", "billing", None, 1, 1, 1),
        ("shop.orders", "billing", 400, 3, 7, 13),
        ("shop.orders", "billing", 400, 1, 1, 1),
        ("shop.refunds", "billing", 400, 1, 1, 1),
    ]
    hours = {row.hour.astimezone(UTC) for row in counts.select("hour").collect()}
    assert hours == {NOON, NOON + timedelta(hours=1)}


@pytest.mark.parametrize(
    ("discards", "patterns"),
    [
        # One shape of payload, and everybody fails: it is the publisher's.
        (
            [a_discard(subscription_id="s-1"), a_discard(subscription_id="s-2")],
            [("ONE_SHAPE", 2, 2, 1)],
        ),
        # Everything fails, at one subscriber only: it is the subscriber's.
        (
            [a_discard(body=b'{"a": 1}'), a_discard(body=b'{"b": 1}'), a_discard(body=b'{"b": 2}')],
            [("ONE_SUBSCRIPTION", 2, 1, 2), ("ONE_SUBSCRIPTION", 1, 1, 2)],
        ),
        # One of each: nothing can be said.
        ([a_discard()], [("MIXED", 1, 1, 1)]),
        # Several of each, though each shape is at one of them.
        (
            [
                a_discard(body=b'{"a": 1}', subscription_id="s-1"),
                a_discard(body=b'{"b": 1}', subscription_id="s-2"),
            ],
            [("MIXED", 1, 1, 2), ("MIXED", 1, 1, 2)],
        ),
        # The same error in another topic is another failure.
        (
            [a_discard(subscription_id="s-1"), a_discard(subscription_id="s-2", topic="shop.b")],
            [("MIXED", 1, 1, 1), ("MIXED", 1, 1, 1)],
        ),
        # Without a status they are alike, too.
        (
            [
                a_discard(subscription_id="s-1", status=None),
                a_discard(subscription_id="s-2", status=None),
            ],
            [("ONE_SHAPE", 2, 2, 1)],
        ),
    ],
)
def test_clusters_say_whether_a_payload_or_a_subscriber_fails(
    spark: SparkSession, discards: list[dict[str, object]], patterns: list[tuple[object, ...]]
) -> None:
    clusters = clustered(described(frame(spark, discards)))
    found = rows_of(clusters, "pattern", "messages", "subscriptions", "shapes")
    assert found == patterns


def test_a_cluster_shows_its_newest_failure(spark: SparkSession) -> None:
    old, new = NOON - timedelta(days=1), NOON
    discards = [
        a_discard(message_id="new", discarded_at=new, reason="order 2 is late"),
        a_discard(message_id="old", discarded_at=old, reason="order 1 is late"),
    ]
    clusters = clustered(described(frame(spark, discards)))
    shown = ("error", "example_id", "example_subscription", "example_reason")
    assert rows_of(clusters, *shown) == [("order <n> is late", "new", "billing", "order 2 is late")]
    times = clusters.selectExpr("unix_micros(first_at)", "unix_micros(last_at)")
    [(first, last)] = rows_of(times, "*")
    assert [datetime.fromtimestamp(us / 1e6, UTC) for us in (first, last)] == [old, new]


def test_only_the_largest_clusters_are_kept(spark: SparkSession) -> None:
    names = [f"field {'x' * number}" for number in range(1, 190)]
    many = [a_discard(reason=name, status=status) for name in names for status in range(400, 406)]
    twice = [*many, a_discard(reason=names[-1], status=405)]
    clusters = clustered(described(frame(spark, twice)))
    found = rows_of(clusters, "messages", "error")
    assert len(many) > CLUSTERS_MAX == len(found)
    assert found[0] == (2, names[-1])


def test_nothing_makes_no_counts_and_no_clusters(spark: SparkSession) -> None:
    nothing = described(frame(spark, []))
    assert rows_of(counted(nothing), "*") == []
    assert rows_of(clustered(nothing), "*") == []
