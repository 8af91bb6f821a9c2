from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.commit import Progress
from app.domain.message import Message, Partition, Record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.order import KeyOrder, Opened, PartitionOrder


class Owner:
    """Takes no notice."""

    def readable(self, cursor: Cursor) -> None:
        del cursor

    def moved(self, cursor: Cursor) -> None:
        del cursor


def a_cursor(index: int = 0) -> Cursor:
    return Cursor(Owner(), Partition("shop.orders", index), Progress(subscription_id="s", offset=0))


def opened(cursor: Cursor, offset: int, key: bytes | None) -> Opened:
    return Opened(cursor, Message(Record(offset, 0, key, b"", []), cursor.partition), 0)


def test_messages_of_a_key_go_one_after_the_other() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy()), a_cursor()
    first, second, third = [opened(cursor, offset, b"k") for offset in range(3)]
    assert [order.admit(each) for each in (first, second, third)] == [first, None, None]
    assert order.finished(cursor, second.message) is None  # it is not its turn
    assert order.finished(cursor, first.message) == second._replace(kept=True)
    assert order.finished(cursor, first.message) is None  # it is over
    assert order.finished(cursor, second.message) == third._replace(kept=True)
    assert order.finished(cursor, third.message) is None
    assert order.admit(opened(cursor, 3, b"k"))


def test_other_keys_other_partitions_and_messages_without_a_key_are_not_held_up() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy()), a_cursor()
    assert order.admit(opened(cursor, 0, b"k"))
    assert order.admit(opened(cursor, 1, b"other"))
    assert order.admit(opened(a_cursor(1), 1, b"k"))
    assert all(order.admit(opened(cursor, offset, None)) for offset in range(2, 5))


def test_nothing_more_is_opened_while_as_many_wait_as_may() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(retry_buffer_max=2), FetchPolicy()), a_cursor()
    messages = [opened(cursor, offset, b"k") for offset in range(3)]
    for each in messages:
        assert order.may_open()
        order.admit(each)
    assert not order.may_open()
    order.finished(cursor, messages[0].message)
    assert order.may_open()
    order.admit(opened(cursor, 3, b"k"))
    assert not order.may_open()
    order.release({cursor})
    assert order.may_open()


def test_more_failing_keys_than_may_bar_their_partition_until_one_is_finished() -> None:
    order, cursor, other = (
        KeyOrder(DeliveryPolicy(parked_keys_max=1), FetchPolicy()),
        a_cursor(),
        a_cursor(1),
    )
    first, second = opened(cursor, 0, b"a"), opened(cursor, 1, b"b")
    for each in (first, second):
        assert order.may_read(cursor)
        order.admit(each)
        order.failed(cursor, each.message)
        order.failed(cursor, each.message)
    assert not order.may_read(cursor)
    assert order.may_read(other)
    order.finished(cursor, first.message)
    assert order.may_read(cursor)


def test_what_waits_is_given_out_by_offset_when_another_order_holds() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy()), a_cursor()
    keys = [b"a", b"b", b"b", b"a", b"b"]
    messages = [opened(cursor, offset, key) for offset, key in enumerate(keys)]
    for each in messages:
        order.admit(each)
    assert list(order.drain()) == messages[2:]
    assert order.finished(cursor, messages[0].message) is None
    assert order.waiting == 0


def test_a_partition_is_read_on_when_its_message_is_finished_or_its_cursor_closes() -> None:
    order, cursor = PartitionOrder(), a_cursor()
    first = opened(cursor, 0, None)
    assert order.may_read(cursor)
    assert order.admit(first)
    order.failed(cursor, first.message)
    assert not order.may_read(cursor)
    assert order.may_read(a_cursor(1))
    order.finished(cursor, opened(cursor, 0, None).message)  # another incarnation's
    assert not order.may_read(cursor)
    order.finished(cursor, first.message)
    assert order.may_read(cursor)
    order.admit(first)
    order.release({cursor})
    assert order.may_read(cursor)


def test_so_many_wait_behind_others_that_do_not_fail_as_three_fetches_bring() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy(fetch_size=1)), a_cursor()
    messages = [opened(cursor, offset, b"k") for offset in range(4)]
    for each in messages:
        assert order.may_open()
        order.admit(each)
    assert not order.may_open()
    order.limit(DeliveryPolicy(), FetchPolicy(fetch_size=2))
    assert order.may_open()
    order.limit(DeliveryPolicy(), FetchPolicy(mode=FetchMode.POLLING, poll_size=3))
    assert not order.may_open()


def test_what_waits_behind_a_failing_key_is_not_in_the_way_of_other_keys() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy(fetch_size=1)), a_cursor()
    messages = [opened(cursor, offset, b"k") for offset in range(4)]
    for each in messages:
        order.admit(each)
    order.failed(cursor, messages[0].message)
    assert order.may_open()
    order.admit(opened(cursor, 4, b"k"))
    assert order.may_open()
    order.finished(cursor, messages[0].message)
    assert not order.may_open()  # four wait, and not for a retry any more
    order.failed(cursor, messages[1].message)
    assert order.may_open()
    order.release({cursor})
    for offset in range(4):
        order.admit(opened(cursor, offset, b"k"))
    assert not order.may_open()


def test_what_waited_behind_its_key_begins_its_time_to_live_unless_that_failed() -> None:
    order, cursor = KeyOrder(DeliveryPolicy(), FetchPolicy()), a_cursor()
    first, second, third = [opened(cursor, offset, b"k") for offset in range(3)]
    for each in (first, second, third):
        order.admit(each)
    freed = order.finished(cursor, first.message)
    assert freed == second._replace(kept=True)
    order.failed(cursor, second.message)
    assert order.finished(cursor, second.message) == third
