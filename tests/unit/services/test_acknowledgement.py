"""What publishers who wait take for an acknowledgement."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from app.api.publish.wait import wait_of
from app.domain.errors import ValidationFailedError
from app.domain.runtime.receipt import FinalOutcome, Receipt, ReceiptAddress, address_of, payloads
from app.services.directory.subscribers import TopicSubscriber
from app.services.publishing.acknowledgement import ack_condition
from app.services.publishing.waiters import PendingReason, SubscriberOutcome, Waiters, Waiting

LONG = timedelta(seconds=30)
SUBSCRIBERS = {f"id-{name}": TopicSubscriber(name, active=True) for name in ("billing", "mail")}


def everybody() -> Mapping[str, TopicSubscriber]:
    return SUBSCRIBERS


def receive(waiters: Waiters, waiting: Waiting, name: str, *, outcome: FinalOutcome) -> None:
    address = address_of(waiting.header)
    assert isinstance(address, ReceiptAddress)
    (payload,) = payloads([Receipt(address.number, f"id-{name}", outcome)])
    waiters.receive(payload)


OUTCOMES = [
    SubscriberOutcome(name="billing", outcome=FinalOutcome.DELIVERED),
    SubscriberOutcome(name="mail", outcome=FinalOutcome.DISCARDED, status=400),
    SubscriberOutcome(name="stock", outcome=PendingReason.PENDING),
]


@pytest.mark.parametrize(
    ("text", "acknowledged"),
    [
        ("delivered == 1 && discarded == 1 && pending == 1", True),
        ("filtered == 0 && suspended == 0 && deleted == 0", True),
        ("delivered == subscriptions", False),
        ("outcomes['billing'] == 'DELIVERED'", True),
        ("outcomes['mail'] == 'DELIVERED'", False),
        ("outcomes['nobody'] == 'DELIVERED'", False),
        ("size(outcomes) == subscriptions", True),
    ],
)
def test_a_condition_is_about_what_became_of_it_at_each_subscription(
    text: str, *, acknowledged: bool
) -> None:
    assert ack_condition(text).acknowledges(OUTCOMES) is acknowledged


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1 to 1000 characters"),
        ("delivered", "must be true or false"),
        ("received == 1", "names received"),
        ("delivered >", "line 1"),
        ("outcomes.all(o, o == 'DELIVERED')", "no loops"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValidationFailedError, match=says) as refused:
        ack_condition(text)
    assert refused.value.details[0].path == "ackExpression"


async def test_who_has_enough_waits_for_no_more() -> None:
    waiters, enough = Waiters(), ack_condition("delivered >= 1").acknowledges
    with waiters.waiting(everybody, within=LONG, enough=enough) as waiting:
        receive(waiters, waiting, "mail", outcome=FinalOutcome.DELIVERED)
        outcomes = await waiting.outcomes()
    assert {each.name: each.outcome for each in outcomes} == {
        "billing": "PENDING",
        "mail": "DELIVERED",
    }
    assert (waiting.acknowledged, waiting.complete) == (True, False)


async def test_when_all_are_done_and_it_is_not_enough_that_is_said() -> None:
    waiters, enough = Waiters(), ack_condition("delivered == 2").acknowledges
    with waiters.waiting(everybody, within=LONG, enough=enough) as waiting:
        receive(waiters, waiting, "mail", outcome=FinalOutcome.DELIVERED)
        receive(waiters, waiting, "billing", outcome=FinalOutcome.DISCARDED)
        await waiting.outcomes()
    assert waiting.acknowledged is False


async def test_when_time_is_up_it_is_not_acknowledged() -> None:
    enough = ack_condition("delivered == 2").acknowledges
    with Waiters().waiting(everybody, within=timedelta(0), enough=enough) as waiting:
        await waiting.outcomes()
    assert waiting.acknowledged is False


@pytest.mark.parametrize("text", ["delivered in [1, 3]", "delivered in [0, 3]"])
async def test_what_is_true_no_more_when_he_looks_does_not_end_his_wait(text: str) -> None:
    waiters, enough = Waiters(), ack_condition(text).acknowledges
    subscribers = {f"id-{name}": TopicSubscriber(name, active=True) for name in "abc"}
    with waiters.waiting(lambda: subscribers, within=LONG, enough=enough) as waiting:
        receive(waiters, waiting, "a", outcome=FinalOutcome.DELIVERED)
        receive(waiters, waiting, "b", outcome=FinalOutcome.DELIVERED)
        async with asyncio.TaskGroup() as tasks:
            outcomes = tasks.create_task(waiting.outcomes())
            await asyncio.wait({outcomes}, timeout=0)
            assert not outcomes.done()
            receive(waiters, waiting, "c", outcome=FinalOutcome.DELIVERED)
    assert waiting.acknowledged is True


async def test_what_is_heard_together_is_judged_once_and_not_by_who_hears_it() -> None:
    judged: list[int] = []

    def enough(outcomes: Sequence[SubscriberOutcome]) -> bool:
        judged.append(sum(each.outcome is FinalOutcome.DELIVERED for each in outcomes))
        return judged[-1] == len(SUBSCRIBERS)

    waiters = Waiters()
    with waiters.waiting(everybody, within=LONG, enough=enough) as waiting:
        async with asyncio.TaskGroup() as tasks:
            outcomes = tasks.create_task(waiting.outcomes())
            await asyncio.wait({outcomes}, timeout=0)
            for name in ("billing", "mail"):
                receive(waiters, waiting, name, outcome=FinalOutcome.DELIVERED)
    assert judged == [0, len(SUBSCRIBERS)]


def test_an_expression_comes_with_a_wait() -> None:
    assert wait_of({"query_string": b"wait=5s&ackExpression=true"}) == timedelta(seconds=5)
    with pytest.raises(ValidationFailedError, match="must come with wait"):
        wait_of({"query_string": b"ackExpression=true"})
