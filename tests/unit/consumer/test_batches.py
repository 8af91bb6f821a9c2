"""When batches are complete, and what is in them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from app.domain.catalogue.batching import BatchFormat, Batching
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.commit import Progress
from app.domain.delivery import BATCH_VOLUME_EXCEEDED, PUBLISH_TTL_ELAPSED
from app.domain.message import Message, Partition, Record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.batches import Batches, Clocks
from workers.consumer.source.collected_batch import without
from workers.consumer.source.order import Opened
from workers.delivery.batch import MessageBatch
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader

PLAIN = Batching(size=3, volume=1_000, time=timedelta(seconds=30), format=BatchFormat.PLAIN)
PUBLISHED_MS = 1_000_000


class Owner:
    """Takes no notice."""

    def readable(self, cursor: Cursor) -> None:
        del cursor

    def moved(self, cursor: Cursor) -> None:
        del cursor


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: PUBLISHED_MS + (self.now - 100) * 1e3)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_cursor(index: int = 0) -> Cursor:
    start = Progress(subscription_id="s", offset=0)
    return Cursor(Owner(), Partition("shop.orders", index), start)


class Source:
    """Has nothing to read."""

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener) -> None: ...

    def resume(self, feed: Feed) -> None: ...

    def leave(self, partition: Partition, reader: TailReader) -> None: ...


def a_full_cursor() -> Cursor:
    """Every second message is finished: these gaps fill the metadata of its commit."""
    cursor = a_cursor()
    feed = Feed(cursor.partition, 0)
    feed.readers.add(cursor)
    cursor.read_from(Source(), feed)
    records = [Record(offset, PUBLISHED_MS, None, b"1", []) for offset in range(20_000)]
    messages = [Message(record, cursor.partition) for record in records]
    feed.put(Batch(0, len(messages), messages, size=1))
    while not cursor.is_full:
        taken = cursor.take()
        assert taken is not None
        if taken[0].offset % 2:
            cursor.delivered(taken[0])
    return cursor


def opened(cursor: Cursor, offset: int, body: bytes | None = b"1") -> Opened:
    record = Record(offset, PUBLISHED_MS, None, body, [])
    return Opened(cursor, Message(record, cursor.partition), PUBLISHED_MS)


def batches(clock: Clock, batching: Batching = PLAIN, **policy: object) -> Batches:
    made = DeliveryPolicy(**policy)  # type: ignore[arg-type]  # any settings
    return Batches(batching, made, subscription_id="s", clocks=clock.clocks)


def admitted(order: Batches, each: Iterable[Opened]) -> list[bytes | None]:
    """What came out after each, by its body."""
    given = [order.admit(one) for one in each]
    return [None if out is None else out.message.body for out in given]


def test_a_batch_is_complete_with_as_many_messages_as_it_may_have(clock: Clock) -> None:
    order, cursor = batches(clock), a_cursor()
    given = [opened(cursor, offset, b"%d" % offset) for offset in range(3)]
    assert admitted(order, given) == [None, None, b"[0,1,2]"]
    assert not order.may_read(cursor)
    assert order.may_read(a_cursor(1))


def test_a_batch_is_never_larger_than_its_volume_with_brackets_and_commas(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, volume=7)), a_cursor()
    given = [opened(cursor, offset, b"12") for offset in range(3)]
    assert admitted(order, given) == [None, b"[12,12]", None]


def test_a_message_that_does_not_fit_any_more_begins_the_next_batch(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, volume=8)), a_cursor()
    assert admitted(order, [opened(cursor, 0, b"12"), opened(cursor, 1, b"1234")]) == [
        None,
        b"[12]",
    ]
    clock.now += 31
    assert order.overdue() is None  # the first one is under way
    assert order.next_due is None


def test_the_next_batch_goes_when_the_one_before_it_is_finished(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, volume=8)), a_cursor()
    order.admit(opened(cursor, 0, b"12"))
    first = order.admit(opened(cursor, 1, b"123456"))
    assert first is not None
    order.finished(cursor, first.message)
    second = order.overdue()
    assert second is not None
    assert second.message.body == b"[123456]"


def test_a_batch_has_messages_of_all_partitions(clock: Clock) -> None:
    order, first, second, third = batches(clock), a_cursor(), a_cursor(1), a_cursor(2)
    given = [opened(first, 0, b"1"), opened(second, 0, b"2"), opened(first, 1, b"3")]
    *_, batch = [order.admit(one) for one in given]
    assert batch is not None
    assert batch.message.body == b"[1,2,3]"
    assert [order.may_read(cursor) for cursor in (first, second, third)] == [False, False, True]
    # Others fill the next one meanwhile.
    given = [opened(third, offset, b"4") for offset in range(3)]
    assert admitted(order, given) == [None, None, b"[4,4,4]"]
    order.finished(first, batch.message)
    assert [order.may_read(cursor) for cursor in (first, second, third)] == [True, True, False]


def test_a_message_that_does_not_fit_holds_up_its_own_partition_alone(clock: Clock) -> None:
    order, first, second = batches(clock, replace(PLAIN, volume=8)), a_cursor(), a_cursor(1)
    order.admit(opened(first, 0, b"12"))
    batch = order.admit(opened(first, 1, b"1234"))
    assert batch is not None
    assert admitted(order, [opened(second, 0, b"777777")]) == [b"[777777]"]
    order.finished(first, batch.message)
    assert order.next_due == pytest.approx(130)
    clock.now += 31
    due = order.overdue()
    assert due is not None
    assert due.message.body == b"[1234]"


def test_a_message_of_another_partition_that_does_not_fit_begins_the_next_batch(
    clock: Clock,
) -> None:
    order, first, second = batches(clock, replace(PLAIN, volume=8)), a_cursor(), a_cursor(1)
    given = [opened(first, 0, b"12"), opened(second, 0, b"1234"), opened(second, 1, b"1")]
    assert admitted(order, given) == [None, b"[12]", b"[1234,1]"]


def test_a_batch_that_is_complete_goes_on_without_a_partition_that_is_released(
    clock: Clock,
) -> None:
    order, first, second = batches(clock), a_cursor(), a_cursor(1)
    *_, batch = [order.admit(opened(cursor, 0, b"1")) for cursor in (first, second, a_cursor(2))]
    assert batch is not None
    before = batch.message.id
    left = without(batch, {first})
    assert left is not None
    assert (left.cursor, left.message.body) == (second, b"[1,1]")
    assert (left.message.partition, left.message.id == before) == (second.partition, False)
    order.release({first})
    assert order.may_read(first)
    order.finished(second, left.message)
    assert order.may_read(second)


def test_a_batch_without_any_partition_is_none(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, size=1)), a_cursor()
    batch = order.admit(opened(cursor, 0))
    assert batch is not None
    assert without(batch, {cursor}) is None
    assert without(opened(cursor, 1), {cursor}) is None


def test_a_partition_that_was_read_before_a_crash_does_not_shorten_the_time_of_others(
    clock: Clock,
) -> None:
    order, first, second = batches(clock, replace(PLAIN, size=2)), a_cursor(), a_cursor(1)
    clock.now += 1_000
    order.admit(opened(first, 0))
    batch = order.admit(opened(second, 0)._replace(opened_ms=PUBLISHED_MS + 999_000))
    assert batch is not None
    assert batch.opened_ms == PUBLISHED_MS + 1_000_000


def test_a_batch_goes_in_time_however_small_it_is(clock: Clock) -> None:
    order, cursor = batches(clock), a_cursor()
    order.admit(opened(cursor, 0))
    clock.now += 10
    order.admit(opened(cursor, 1))
    assert order.next_due == pytest.approx(130)
    clock.now += 19.9
    assert order.overdue() is None
    clock.now += 0.2
    due = order.overdue()
    assert due is not None
    assert due.message.body == b"[1,1]"
    assert order.next_due is None


def test_what_can_be_read_is_read_before_a_batch_goes_in_time(clock: Clock) -> None:
    order, cursor = batches(clock), a_cursor()
    order.admit(opened(cursor, 0))
    clock.now += 31
    cursor.queued = True
    assert order.overdue() is None
    cursor.queued = False
    assert order.overdue() is not None


def test_a_batch_goes_when_nothing_more_can_be_opened_behind_it(clock: Clock) -> None:
    cursor, order = a_full_cursor(), batches(clock)
    order.admit(opened(cursor, 0))
    assert order.overdue() is not None


def test_a_message_larger_than_a_batch_may_be_is_refused_by_itself(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, volume=8)), a_cursor()
    order.admit(opened(cursor, 0))
    refused = order.admit(opened(cursor, 1, b"1234567"))
    assert refused is not None
    assert (refused.message.offset, refused.refused and refused.refused.reason) == (
        1,
        BATCH_VOLUME_EXCEEDED,
    )
    assert order.may_read(cursor)


@pytest.mark.parametrize("body", [None, b"\xff"])
def test_a_message_that_no_batch_can_carry_is_refused_by_itself(
    clock: Clock, body: bytes | None
) -> None:
    order, cursor = batches(clock), a_cursor()
    refused = order.admit(opened(cursor, 0, body))
    assert refused is not None
    assert refused.refused is not None
    assert order.next_due is None


def test_messages_too_old_for_a_first_attempt_are_refused_when_their_batch_goes(
    clock: Clock,
) -> None:
    order, cursor = batches(clock, publish_ttl=timedelta(seconds=20)), a_cursor()
    order.admit(opened(cursor, 0, b"1"))
    young = opened(cursor, 1, b"2")
    young.message.published_ms += 15_000
    order.admit(young)
    clock.now += 30
    out = [order.overdue(), order.overdue(), order.overdue()]
    assert [each and each.message.body for each in out] == [b"[2]", b"1", None]
    assert out[1] is not None
    assert out[1].refused is not None
    assert out[1].refused.reason == PUBLISH_TTL_ELAPSED


def test_a_batch_of_messages_that_are_all_too_old_is_no_batch(clock: Clock) -> None:
    order, cursor = batches(clock, publish_ttl=timedelta(seconds=20)), a_cursor()
    clock.now += 60
    given = [order.admit(opened(cursor, offset)) for offset in range(3)]
    given += [order.overdue() for _ in range(3)]
    refused = [each.message.offset for each in given if each is not None and each.refused]
    assert refused == [0, 1, 2]
    assert order.may_read(cursor)


def test_its_time_to_live_runs_from_when_it_goes_and_not_anew_after_a_crash(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, size=1)), a_cursor()
    clock.now += 5
    fresh = order.admit(opened(cursor, 0))
    assert fresh is not None
    assert fresh.opened_ms == PUBLISHED_MS + 5_000
    order.finished(cursor, fresh.message)
    clock.now += 1_000
    old = order.admit(opened(cursor, 1))
    assert old is not None
    assert old.opened_ms == PUBLISHED_MS + 30_000


def test_the_same_messages_make_a_batch_with_the_same_id_and_others_do_not(clock: Clock) -> None:
    def batch_of(*offsets: int, subscription_id: str = "s") -> bytes:
        batching = replace(PLAIN, size=len(offsets))
        order = Batches(
            batching, DeliveryPolicy(), subscription_id=subscription_id, clocks=clock.clocks
        )
        cursor = a_cursor()
        *_, last = [order.admit(opened(cursor, offset)) for offset in offsets]
        assert last is not None
        return last.message.id

    assert batch_of(1, 2) == batch_of(1, 2)
    different = [batch_of(1, 2), batch_of(1, 3), batch_of(2), batch_of(1, 2, subscription_id="t")]
    assert len(set(different)) == 4


def test_it_looks_like_its_youngest_message(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, size=2)), a_cursor()
    order.admit(opened(cursor, 0))
    young = opened(cursor, 1)
    young.message.published_ms += 7
    batch = order.admit(young)
    assert batch is not None
    assert isinstance(batch.message, MessageBatch)
    assert batch.message.published_ms == PUBLISHED_MS + 7


def test_what_is_released_is_forgotten(clock: Clock) -> None:
    order, cursor, other = batches(clock), a_cursor(), a_cursor(1)
    order.admit(opened(cursor, 0))
    order.admit(opened(other, 0))
    order.release({cursor})
    clock.now += 31
    due = order.overdue()
    assert due is not None
    assert due.cursor is other
    assert order.overdue() is None


def test_all_that_is_collected_can_be_given_out_one_by_one(clock: Clock) -> None:
    order, cursor = batches(clock), a_cursor()
    order.admit(opened(cursor, 0, b"1"))
    order.admit(opened(cursor, 1, b"2"))
    assert [each.message.body for each in order.drain()] == [b"1", b"2"]
    assert order.next_due is None


def test_a_wrapped_batch_can_be_read_as_json(clock: Clock) -> None:
    order, cursor = batches(clock, replace(PLAIN, size=1, format=BatchFormat.WRAPPED)), a_cursor()
    batch = order.admit(opened(cursor, 4, b'{"a": 1}'))
    assert batch is not None
    assert orjson.loads(batch.message.body or b"") == [
        {
            "_w": True,
            "metadata": {
                "timestamp": PUBLISHED_MS,
                "id": "shop.orders/0/4",
                "externalMetadata": {},
            },
            "message": {"a": 1},
        }
    ]
