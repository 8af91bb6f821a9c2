"""What a ledger is made of, on small frames."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from app.domain.commit import Ranges
from app.domain.insight.ledger import Book, Mark
from app.domain.message import HEADER_TARGET
from app.domain.targeted import RecordTarget, target_of
from spark.ledger_records import of_messages
from spark.schemas import LEDGER_RECORDS, MESSAGES, PLACED_DISCARDS
from spark.transforms.ledger import LedgerAccount, counted, discards_by_reason, passed_discards
from tests.spark.discards import rows_of
from tests.spark.plans import plan_of
from tests.spark.test_retransmission_transforms import a_message, frame

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

TOPIC = "shop.orders"
OURS, THEIRS = "a" * 32, "b" * 32
GOOD, DROPPED = "c" * 32, "d" * 32


def a_book(partition: int = 0) -> Book:
    """Carried 2, 3, 6; published 7 to 14; of all, 6, 10, 11 and 14 unfinished."""
    opening = Mark(partition=partition, offset=2, end=7, finished=((4, 6),))
    closing = Mark(partition=partition, offset=6, end=15, finished=((7, 10), (12, 14)))
    return Book(opening=opening, closing=closing)


def an_account(*books: Book) -> LedgerAccount:
    return LedgerAccount(
        topic=TOPIC,
        subscription_id=OURS,
        books=books or (a_book(),),
        dropped=frozenset({DROPPED}),
    )


def counts(messages: DataFrame, account: LedgerAccount) -> DataFrame:
    return counted(of_messages(messages, TOPIC), [account]).drop("subscription_id")


NO_BOOKS = LedgerAccount(topic=TOPIC, subscription_id=OURS, books=())


def record_target(offset: int, header: bytes | None, **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    headers = [
        {"key": "id", "value": b"m"},
        {"key": HEADER_TARGET.decode(), "value": header},
    ]
    return a_message(offset, headers=headers, **columns)


def a_discard(offset: int, reason: str = "r", status: int | None = 400) -> dict[str, Any]:
    place = {"subscription_id": OURS, "partition": 0, "offset": offset}
    return {**place, "reason": reason, "status": status}


def test_records_are_counted_by_when_they_came_and_whether_they_passed(spark: SparkSession) -> None:
    # What was finished before, what is older, and what came later belong to other entries.
    messages = [a_message(offset) for offset in range(20)]
    found = counts(frame(spark, messages, MESSAGES).coalesce(1), an_account())
    order = found.orderBy("carried", "passed")
    assert rows_of(order, "*") == [
        (0, False, False, "EVERYBODY", 3, 10),
        (0, False, True, "EVERYBODY", 5, 7),
        (0, True, False, "EVERYBODY", 1, 6),
        (0, True, True, "EVERYBODY", 2, 2),
    ]


def test_each_is_for_everybody_for_this_subscription_or_for_another(spark: SparkSession) -> None:
    first = record_target(9, RecordTarget(THEIRS, GOOD).header())
    own = {"key": HEADER_TARGET.decode(), "value": RecordTarget(OURS, GOOD).header()}
    messages = [
        a_message(7, headers=None, key=None, value=None),
        record_target(8, RecordTarget(OURS, GOOD).header()),
        # As deliveries do: the last header counts.
        {**first, "headers": [*first["headers"], own]},
        record_target(10, RecordTarget(OURS, DROPPED).header()),
        record_target(11, RecordTarget(THEIRS, DROPPED).header()),
        record_target(12, b"not of ours"),
        record_target(13, None),
        record_target(14, b""),
    ]
    found = counts(frame(spark, messages, MESSAGES).coalesce(1), an_account())
    assert rows_of(found.orderBy("whose", "passed"), "whose", "passed", "messages", "first") == [
        ("CANCELLED", False, 1, 10),
        ("EVERYBODY", False, 1, 14),
        ("EVERYBODY", True, 3, 7),
        ("OTHERS", False, 1, 11),
        ("RESENT", True, 2, 8),
    ]


def test_each_partition_counts_for_itself_and_others_for_none(spark: SparkSession) -> None:
    messages = [
        a_message(2), a_message(2, partition=1), a_message(7, partition=1),
        a_message(3, partition=2),
    ]  # fmt: skip
    found = counts(frame(spark, messages, MESSAGES), an_account(a_book(), a_book(1)))
    sums = found.groupBy("partition", "carried").sum("messages").orderBy("partition", "carried")
    assert rows_of(sums, "*") == [(0, True, 1), (1, False, 1), (1, True, 1)]


@pytest.mark.parametrize("account", [an_account(), NO_BOOKS])
def test_nothing_is_made_of_nothing(spark: SparkSession, account: LedgerAccount) -> None:
    assert rows_of(counts(frame(spark, [], MESSAGES), account), "*") == []
    discards = passed_discards(frame(spark, [], PLACED_DISCARDS), [account])
    assert rows_of(discards_by_reason(discards), "*") == []


def test_what_no_book_is_about_counts_nowhere(spark: SparkSession) -> None:
    assert rows_of(counts(frame(spark, [a_message(7)], MESSAGES), NO_BOOKS), "*") == []
    discards = frame(spark, [a_discard(7)], PLACED_DISCARDS)
    assert rows_of(passed_discards(discards, [NO_BOOKS]), "*") == []


def test_discards_count_by_reason_where_they_passed(spark: SparkSession) -> None:
    discards = [
        # Before, finished before, unfinished still (it was sent again after a crash), and later.
        a_discard(1), a_discard(4), a_discard(10), a_discard(15),
        a_discard(2, "Message sending failed with status code:400 after 11 ms"),
        a_discard(7, "Message sending failed with status code:400 after 12 ms"),
        a_discard(8, "no address", None),
        a_discard(9, "no address", 503),
    ]  # fmt: skip
    passed = passed_discards(frame(spark, discards, PLACED_DISCARDS), [an_account()])
    assert [offset for (offset,) in rows_of(passed.orderBy("offset"), "offset")] == [2, 7, 8, 9]
    found = discards_by_reason(passed).orderBy("reason", "status").drop("subscription_id")
    assert rows_of(found, "*") == [
        (0, "Message sending failed with status code:400 after <n> ms", 400, 2),
        (0, "no address", None, 1),
        (0, "no address", 503, 1),
    ]


def test_tasks_count_what_they_read_and_nothing_is_shuffled(spark: SparkSession) -> None:
    messages = [a_message(offset) for offset in range(2, 15)]
    found = counts(frame(spark, messages, MESSAGES).repartition(3), an_account())
    assert sum(count for (count,) in rows_of(found, "messages")) == 11
    read = counts(spark.createDataFrame([], MESSAGES), an_account())
    plan = plan_of(read)
    assert "Exchange" not in plan


def test_records_before_a_gap_of_what_can_be_read_count_nowhere(spark: SparkSession) -> None:
    account = LedgerAccount(topic=TOPIC, subscription_id=OURS, books=(a_book(),), starts={0: 7})
    messages = frame(spark, [a_message(offset) for offset in range(20)], MESSAGES)
    found = counts(messages.coalesce(1), account).orderBy("carried", "passed")
    assert rows_of(found, "carried", "passed", "messages", "first") == [
        (False, False, 3, 10),
        (False, True, 5, 7),
    ]


# Of random ledgers: offsets of a partition, and how many of each are made.
END, TOPICS, OWNERS = 60, ("shop.a", "shop.b"), 12


def random_ranges(random: Random, start: int, end: int) -> tuple[tuple[int, int], ...]:
    edges = sorted(random.sample(range(start + 1, end + 1), 2 * random.randint(0, 3)))
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def random_book(random: Random, partition: int) -> Book:
    first, opened = sorted(random.sample(range(END - 20), 2))
    second = random.randint(first, END - 10)
    opening = Mark(
        partition=partition, offset=first, end=opened,
        finished=random_ranges(random, first, max(opened, first + 7)),
    )  # fmt: skip
    closed = max(second, opened, END - random.randint(0, 9))
    closing = Mark(
        partition=partition, offset=second, end=closed,
        finished=random_ranges(random, second, max(closed, second + 7)),
    )  # fmt: skip
    return Book(opening=opening, closing=closing)


def random_account(random: Random, number: int) -> LedgerAccount:
    return LedgerAccount(
        topic=random.choice(TOPICS),
        subscription_id=f"{number:032x}",
        books=tuple(random_book(random, partition) for partition in range(2)),
        dropped=frozenset({DROPPED}),
    )


def random_target(random: Random) -> bytes | None:
    if random.random() < 0.7:
        return None
    # Some are for nobody that has an account, and some are not of ours.
    owner = f"{random.randint(0, OWNERS + 1):032x}"
    header = RecordTarget(owner, random.choice((GOOD, DROPPED))).header()
    return random.choice((header, header, header, b"x"))


def is_in(ranges: Ranges, offset: int) -> bool:
    return any(low <= offset < high for low, high in ranges)


def one_by_one(
    records: Sequence[dict[str, Any]], accounts: Sequence[LedgerAccount]
) -> Iterator[tuple[Any, ...]]:
    """Each kind that each record is of, for each account, by the definition of each."""
    for account in accounts:
        books = {book.closing.partition: book for book in account.books}
        for record in records:
            book, offset = books[record["partition"]], record["offset"]
            carried = is_in(book.carried(), offset)
            if record["topic"] == account.topic and (carried or is_in(book.published(), offset)):
                target = target_of(record["target"] or b"")
                if target is None:
                    whose = "EVERYBODY"
                elif target.subscription_id != account.subscription_id:
                    whose = "OTHERS"
                else:
                    whose = "CANCELLED" if target.job_id == DROPPED else "RESENT"
                passed = not is_in(book.unfinished(), offset)
                kind = (record["partition"], carried, passed, whose)
                yield account.subscription_id, *kind, offset


def test_many_ledgers_are_counted_at_once_as_each_would_be_alone(spark: SparkSession) -> None:
    random = Random(20260130)
    accounts = [random_account(random, number) for number in range(OWNERS)]
    records = [
        {"topic": topic, "partition": partition, "offset": offset, "target": random_target(random)}
        for topic in TOPICS
        for partition in range(2)
        for offset in range(END)
        if random.random() < 0.9
    ]
    found = counted(frame(spark, records, LEDGER_RECORDS).repartition(2), accounts)
    total, first = Counter[tuple[Any, ...]](), dict[tuple[Any, ...], int]()
    for *kind, messages, least in rows_of(found, "*"):
        total[tuple(kind)] += messages
        first[tuple(kind)] = min(least, first.get(tuple(kind), least))
    expected = [(tuple(kind), offset) for *kind, offset in one_by_one(records, accounts)]
    assert total == Counter(kind for kind, _ in expected)
    assert {kind[-1] for kind in total} == {"EVERYBODY", "OTHERS", "RESENT", "CANCELLED"}
    # Offsets come in order, so what is set last is the lowest.
    assert first == dict(reversed(expected))
