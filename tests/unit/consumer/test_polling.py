from datetime import timedelta

from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from workers.consumer.source.polling import Polling


def policy(size: int = 3, seconds: float = 10, timeout: float = 1) -> FetchPolicy:
    return FetchPolicy(
        mode=FetchMode.POLLING,
        poll_size=size,
        polling_time=timedelta(seconds=seconds),
        fetch_timeout=timedelta(seconds=timeout),
    )


def taken(polling: Polling, now: float, messages: int) -> int:
    """How many of so many messages are taken now; nothing is being read."""
    for number in range(messages):
        if not polling.may_take(now):
            return number
        polling.took()
    if polling.may_take(now):
        polling.found_nothing(now, reading=False, held_up=False)
    return messages


def test_a_poll_takes_its_size_and_the_next_is_due_a_period_after_it_began() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 9) == 3
    assert polling.next_due(104) == 104 + 6
    assert taken(polling, 109.9, 6) == 0
    assert taken(polling, 110, 6) == 3


def test_a_late_poll_does_not_shift_those_after_it() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 9) == 3
    assert taken(polling, 110.5, 6) == 3
    assert polling.next_due(111) == 111 + 9


def test_polls_that_find_nothing_keep_the_time() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 1) == 1
    assert not polling.may_take(157)  # a message has come, five polls later
    assert polling.next_due(157) == 157 + 3
    assert taken(polling, 160, 1) == 1


def test_the_time_counts_from_the_first_poll_that_finds_a_message() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 0) == 0
    assert taken(polling, 103, 4) == 3
    assert polling.next_due(103) == 103 + 10


def test_no_poll_begins_while_one_of_the_former_is_under_way() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 9) == 3
    for message in ("a", "b"):
        polling.started(message)
    assert taken(polling, 111, 6) == 0
    assert polling.next_due(111) is None
    assert not polling.ended("a")
    assert not polling.ended("a")  # a retry of it
    assert taken(polling, 112, 6) == 0
    assert polling.ended("b")
    assert taken(polling, 112, 6) == 3  # its time has passed
    assert polling.next_due(112) == 112 + 8


def test_a_poll_that_was_asked_for_meanwhile_begins_when_the_last_has_landed() -> None:
    polling = Polling(policy(), 100)
    assert taken(polling, 100, 1) == 1
    polling.started("a")
    assert taken(polling, 117, 1) == 0
    polling.ended("a")
    assert taken(polling, 123, 1) == 1
    assert polling.next_due(123) == 123 + 10


def test_a_poll_waits_for_what_is_being_read() -> None:
    polling = Polling(policy(), 100)
    assert polling.may_take(100)
    polling.took()
    polling.found_nothing(100, reading=True, held_up=False)
    assert taken(polling, 100.9, 5) == 2


def test_a_poll_does_not_wait_longer_than_the_fetch_timeout() -> None:
    polling = Polling(policy(), 100)
    assert polling.may_take(100)
    polling.took()
    polling.found_nothing(100, reading=True, held_up=False)
    polling.found_nothing(100.8, reading=True, held_up=False)
    assert taken(polling, 101.1, 5) == 0
    assert taken(polling, 110, 5) == 3


def test_a_poll_waits_for_one_of_its_messages_that_holds_others_up() -> None:
    polling = Polling(policy(), 100)
    assert polling.may_take(100)
    polling.took()
    polling.started("a")
    polling.found_nothing(100, reading=False, held_up=True)
    polling.ended("a")
    assert taken(polling, 101, 5) == 2


def test_a_poll_does_not_wait_for_a_retry() -> None:
    polling = Polling(policy(), 100)
    assert polling.may_take(100)
    polling.took()
    polling.started("a")
    polling.ended("a")
    polling.found_nothing(100, reading=False, held_up=True)
    assert taken(polling, 101, 5) == 0


def test_other_settings_hold_at_once() -> None:
    polling = Polling(policy(size=3, seconds=3600), 100)
    assert polling.may_take(100)
    polling.configure(policy(size=1, seconds=10), 100)
    assert taken(polling, 100, 5) == 1
    assert taken(polling, 110, 5) == 1
    polling.configure(policy(size=4, seconds=10), 111)
    assert taken(polling, 120, 5) == 4
