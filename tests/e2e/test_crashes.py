"""Processes die at the worst moments: nothing is lost, and little is sent twice."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.e2e.service import PATIENCE_S, Service, has_all, running
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "shop.orders"
IN_FLIGHT = 100
FEW = 20
LATENCY_S = 0.05


def numbered(count: int, start: int = 0) -> list[tuple[bytes, str]]:
    return [(b'{"n": %d}' % n, f"key-{n % 97}") for n in range(start, start + count)]


async def test_a_killed_worker_loses_nothing_and_repeats_only_what_was_not_committed(
    configuration: Mapping[str, str], logs: Path
) -> None:
    slow = Reply(delay=LATENCY_S)
    async with running(configuration, logs, workers=0) as service, Subscriber(slow) as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
        published = await service.publish_all(TOPIC, numbered(2_500))
        first = await service.worker()
        await receiver.wait_for(800, PATIENCE_S)
        await first.kill()
        came, left = len(receiver.received), await lag_of(service, path)
        await service.worker()
        await has_all(receiver, published)
        await service.accounted(path, len(published))
    # Of what came some was finished, and committed with the messages that wait.
    twice = len(receiver.received) - len(published)
    assert twice <= came - (len(published) - left)


@ONE_LOG
async def test_a_worker_that_is_asked_to_stop_leaves_nothing_to_send_twice(
    configuration: Mapping[str, str], logs: Path
) -> None:
    slow = Reply(delay=LATENCY_S)
    async with running(configuration, logs, workers=0) as service, Subscriber(slow) as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
        published = await service.publish_all(TOPIC, numbered(2_000))
        first = await service.worker()
        await receiver.wait_for(300, PATIENCE_S)
        assert await first.stop() == 0
        stopped_at = len(receiver.received)
        await service.worker()
        await service.accounted(path, len(published))
    assert stopped_at < len(published)
    service.assert_once(receiver.message_ids, published)


@ONE_LOG
async def test_what_is_published_while_suspended_comes_once_after_the_resumption(
    configuration: Mapping[str, str], logs: Path
) -> None:
    slow = Reply(delay=LATENCY_S)
    async with running(configuration, logs) as service, Subscriber(slow) as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=FEW)
        published = await service.publish_all(TOPIC, numbered(400))
        await receiver.wait_for(50)
        await service.set_state(path, "SUSPENDED")
        await service.applied(path)
        at_suspension = len(receiver.received)
        later = await service.publish_all(TOPIC, numbered(200, start=400))
        # What was in the air may have come a moment later.
        assert len(receiver.received) <= at_suspension + FEW
        assert not later.keys() & set(receiver.message_ids)
        await service.set_state(path, "ACTIVE")
        await service.accounted(path, len(published | later))
    service.assert_once(receiver.message_ids, [*published, *later])


@ONE_LOG
async def test_a_publisher_may_repeat_what_a_killed_api_did_not_answer(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        bodies = {f"order-{n}": b'{"n": %d}' % n for n in range(600)}
        unanswered = await publish_until_killed(service, bodies, after=200)
        await service.api()
        for message_id in unanswered:
            await service.publish(TOPIC, bodies[message_id], **{"Idempotency-Key": message_id})
        await has_all(receiver, bodies)
        await service.accounted(path, len(bodies))
    assert unanswered
    assert all(bodies[r.message_id] == r.body for r in receiver.received)
    repeated = Counter(receiver.message_ids) - Counter(bodies.keys())
    assert set(repeated) <= unanswered


async def lag_of(service: Service, path: str) -> int:
    """By what is committed in the log."""
    [group] = (await service.http.get(f"{path}/consumer-groups")).raise_for_status().json()
    return sum(each["lag"] for each in group["partitions"])


async def publish_until_killed(
    service: Service, bodies: Mapping[str, bytes], *, after: int
) -> set[str]:
    """Publish all, 16 at a time; kill the API when `after` are answered. Who had no answer."""
    queue, answered, enough = iter(bodies), set[str](), asyncio.Event()

    async def publisher() -> None:
        for message_id in queue:
            with contextlib.suppress(httpx.TransportError):
                headers = {"Idempotency-Key": message_id}
                answered.add(await service.publish(TOPIC, bodies[message_id], **headers))
            if len(answered) >= after:
                enough.set()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(16):
            tasks.create_task(publisher())
        await enough.wait()
        await service.processes[0].kill()
    return set(bodies) - answered


@ONE_LOG
async def test_a_killed_worker_leaves_how_often_messages_were_tried(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs, workers=0) as service,
        Subscriber(Reply(status=500)) as receiver,
    ):
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url, maxRetries=3, messageBackoff=1_500)
        first = await service.worker()
        await service.publish(TOPIC, b'{"n": 1}')
        # What the second has come to is committed long before the third leaves.
        await receiver.wait_for(3, PATIENCE_S)
        await first.kill()
        await service.worker()
        [discarded] = await service.undelivered(path, 1)
    counts = [received.retry_count for received in receiver.received]
    # The third was in flight, or not committed: then it is sent again.
    assert counts in ([0, 1, 2, 3], [0, 1, 2, 2, 3])
    assert discarded["attempts"] == 4
