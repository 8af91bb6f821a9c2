"""What a worker says in its log names the worker, the subscription and the message."""

from collections.abc import Sequence
from datetime import timedelta

from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from app.domain.delivery import Delivered, Outcome
from app.domain.message import HEADER_ID, NewRecord
from tests.fakes.worker import Attempt, World, delivered

SOON = timedelta(milliseconds=1)


def broken_once(attempt: Attempt) -> Outcome:
    if attempt.retry_count == 0:
        raise RuntimeError("a defect")
    return Delivered(status=200)


def said(logs: Sequence[object], event: str) -> list[dict[str, object]]:
    return [each for each in logs if isinstance(each, dict) and each["event"] == event]


async def test_an_attempt_that_breaks_is_said_with_its_message_subscription_and_worker() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, message_backoff=SOON)
    world.endpoints.replies[subscription.endpoint] = broken_once
    with capture_logs(processors=[merge_contextvars]) as logs:
        async with world.worker("w1"):
            record = NewRecord(value=b"x", headers=((HEADER_ID, b"m-1"),))
            await world.log.append(topic.name, [record])
            await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    (event,) = said(logs, "internal_error")
    assert (event["message_id"], event["subscription"]) == ("m-1", subscription.group)
    assert event["worker"] == "w1"


async def test_workers_of_one_process_are_told_apart() -> None:
    world = World()
    await world.topic()
    with capture_logs(processors=[merge_contextvars]) as logs:
        async with world.worker("w1"), world.worker("w2"):
            await world.plane.until(lambda: {"w1", "w2"} <= world.plane.beats.keys())
    assert {each["worker"] for each in said(logs, "worker_stopped")} == {"w1", "w2"}
    named = {each.get("worker") for each in said(logs, "ownership_changed")}
    assert named
    assert named <= {"w1", "w2"}
