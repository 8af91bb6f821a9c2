"""Publishers who wait: for whom, how long, and what they are told."""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta

import pytest

from app.api.publish.wait import wait_of
from app.domain.errors import TooManyWaitersError, ValidationFailedError
from app.domain.runtime.receipt import FinalOutcome, Receipt, ReceiptAddress, address_of, payloads
from app.services.directory.subscribers import TopicSubscriber
from app.services.publishing.waiters import PendingReason, SubscriberOutcome, Waiters, Waiting

LONG = timedelta(seconds=30)
NONE_AT_ALL = timedelta(0)


class Topic:
    """Its subscriptions, as they change."""

    def __init__(self, **subscribers: bool) -> None:
        self.now = {
            f"id-{name}": TopicSubscriber(name, active) for name, active in subscribers.items()
        }

    def __call__(self) -> Mapping[str, TopicSubscriber]:
        return self.now


def number_of(waiting: Waiting) -> int:
    address = address_of(waiting.header)
    assert isinstance(address, ReceiptAddress)
    return address.number


def receive(waiters: Waiters, waiting: Waiting, name: str, *said: object) -> None:
    (payload,) = payloads([Receipt(number_of(waiting), f"id-{name}", *said)])  # type: ignore[arg-type]
    waiters.receive(payload)


def scope(query: str) -> dict[str, object]:
    return {"query_string": query.encode()}


async def test_is_complete_when_all_that_are_active_are_done() -> None:
    waiters = Waiters()
    topic = Topic(b=True, a=True, c=True, asleep=False)
    with waiters.waiting(topic, within=LONG) as waiting:
        receive(waiters, waiting, "b", FinalOutcome.DELIVERED)
        receive(waiters, waiting, "a", FinalOutcome.DISCARDED, 400, "refused")
        before = waiting.complete
        receive(waiters, waiting, "c", FinalOutcome.FILTERED)
        outcomes = await waiting.outcomes()
        assert (before, waiting.complete) == (False, True)
    assert outcomes == [
        SubscriberOutcome(name="a", outcome=FinalOutcome.DISCARDED, status=400, reason="refused"),
        SubscriberOutcome(name="asleep", outcome=PendingReason.SUSPENDED),
        SubscriberOutcome(name="b", outcome=FinalOutcome.DELIVERED),
        SubscriberOutcome(name="c", outcome=FinalOutcome.FILTERED),
    ]


async def test_says_what_is_not_known_when_time_is_up() -> None:
    waiters = Waiters()
    topic = Topic(done=True, retrying=True, suspended=True, deleted=True)
    with waiters.waiting(topic, within=NONE_AT_ALL) as waiting:
        receive(waiters, waiting, "done", FinalOutcome.DELIVERED)
        topic.now["id-suspended"] = TopicSubscriber("suspended", active=False)
        del topic.now["id-deleted"]
        outcomes = await waiting.outcomes()
        assert not waiting.complete
    assert {each.name: each.outcome for each in outcomes} == {
        "deleted": "DELETED",
        "done": "DELIVERED",
        "retrying": "PENDING",
        "suspended": "SUSPENDED",
    }


@pytest.mark.parametrize("topic", [Topic(), Topic(asleep=False)])
async def test_nobody_active_is_waited_for_by_nobody(topic: Topic) -> None:
    with Waiters().waiting(topic, within=LONG) as waiting:
        assert len(await waiting.outcomes()) == len(topic.now)
        assert waiting.complete


async def test_who_subscribes_later_is_not_waited_for() -> None:
    waiters, topic = Waiters(), Topic(a=True)
    with waiters.waiting(topic, within=LONG) as waiting:
        topic.now["id-late"] = TopicSubscriber("late", active=True)
        receive(waiters, waiting, "a", FinalOutcome.DELIVERED)
        assert [each.name for each in await waiting.outcomes()] == ["a"]


async def test_what_was_said_first_counts_and_other_requests_are_left_alone() -> None:
    waiters, topic = Waiters(), Topic(a=True)
    with waiters.waiting(topic, within=LONG) as waiting:
        with waiters.waiting(topic, within=NONE_AT_ALL) as other:
            receive(waiters, waiting, "a", FinalOutcome.DELIVERED)
            receive(waiters, waiting, "a", FinalOutcome.DISCARDED)
            assert (await other.outcomes())[0].outcome == "PENDING"
        receive(waiters, other, "a", FinalOutcome.DELIVERED)  # nobody is there any more
        assert (await waiting.outcomes())[0].outcome == "DELIVERED"


def test_so_many_wait_and_no_more_until_one_is_answered() -> None:
    waiters, topic = Waiters(waiters_max=2), Topic()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(waiters.waiting(topic, within=LONG))
        with pytest.raises(TooManyWaitersError), waiters.waiting(topic, within=LONG):
            pass
    with waiters.waiting(topic, within=LONG) as waiting:
        assert waiting.complete


def test_numbers_and_names_are_never_given_twice() -> None:
    waiters, topic = Waiters(), Topic()
    with waiters.waiting(topic, within=LONG) as first:
        pass
    with waiters.waiting(topic, within=LONG) as second:
        pass
    assert number_of(first) != number_of(second)
    assert Waiters().name != waiters.name


@pytest.mark.parametrize(
    ("query", "wait_ms"),
    [("wait=5s", 5_000), ("wait=30", 30_000), ("wait=0", 0), ("wait=250ms", 250), ("x=1", None)],
)
def test_a_wait_is_read_in_seconds_or_milliseconds(query: str, wait_ms: int | None) -> None:
    expected = None if wait_ms is None else timedelta(milliseconds=wait_ms)
    assert wait_of(scope(query)) == expected


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "31", "31s", "30001ms", "1.5s", "5m", "5 s", "9" * 12, "true"]
)
def test_any_other_wait_is_refused_with_its_range(text: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        wait_of(scope(f"wait={text}"))
    (problem,) = refused.value.details
    assert (problem.path, problem.message) == ("wait", "must be 0 to 30 seconds, as 5s or 500ms")
