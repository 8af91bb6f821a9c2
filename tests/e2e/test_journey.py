"""Real payloads through the whole service: healthy, flaky and strict subscribers on both logs."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.e2e.events import some_events
from tests.e2e.service import Service, running
from tests.fakes.subscriber import Received, Reply, Script, Subscriber
from tests.servers.old_kafka import OLD_KAFKAS

TOPIC = "github.events"
BUSY = Reply(status=503, headers={"Retry-After": "1"})


def healthy(_: Received) -> Reply:
    return Reply()


def flaky(received: Received) -> Reply:
    return BUSY if received.retry_count == 0 else Reply()


@pytest.mark.parametrize("on_old_kafka", OLD_KAFKAS, indirect=True)
async def test_an_older_kafka_does_as_well(on_old_kafka: Mapping[str, str], logs: Path) -> None:
    await every_message_is_delivered_or_discarded(on_old_kafka, logs)


async def test_every_message_is_delivered_byte_for_byte_or_discarded_for_all_to_see(
    configuration: Mapping[str, str], logs: Path
) -> None:
    await every_message_is_delivered_or_discarded(configuration, logs)


async def every_message_is_delivered_or_discarded(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()

    def strict(received: Received) -> Reply:
        return Reply(status=400 if received.body in events.refused else 200)

    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(configuration, logs))
        await service.topic(TOPIC, partitions=8)
        replies: dict[str, Script] = {"healthy": healthy, "flaky": flaky, "strict": strict}
        receivers = {
            name: await stack.enter_async_context(Subscriber(reply))
            for name, reply in replies.items()
        }
        paths = {
            name: await service.subscribe(TOPIC, name, receiver.url)
            for name, receiver in receivers.items()
        }
        published = await service.publish_all(TOPIC, events.bodies)
        assert len(published) == len(events.bodies)
        for path in paths.values():
            counts = await service.accounted(path, len(published))
            assert counts["delivered"] + counts["discarded"] == len(published)
        service.assert_once(receivers["healthy"].message_ids, published)
        assert {r.message_id: r.body for r in receivers["healthy"].received} == published
        no_retry_is_early(service, receivers["flaky"], published)
        refused = {key: body for key, body in published.items() if body in events.refused}
        await discards_can_be_read(service, paths["strict"], refused)


def no_retry_is_early(
    service: Service, receiver: Subscriber, published: Mapping[str, bytes]
) -> None:
    attempts: dict[str, list[Received]] = defaultdict(list)
    for received in receiver.received:
        attempts[received.message_id].append(received)
    for number in (0, 1):
        tries = [each for each in receiver.received if each.retry_count == number]
        service.assert_once((each.message_id for each in tries), published)
    assert all(r.body == published[r.message_id] for r in receiver.received)
    assert all(second.at - first.at >= 1.0 for first, second, *_ in attempts.values())


async def discards_can_be_read(service: Service, path: str, expected: Mapping[str, bytes]) -> None:
    assert expected
    rows = await service.undelivered(path, len(expected))
    assert {row["messageId"]: row["message"].encode() for row in rows} == expected
    assert {row["reason"] for row in rows} == {"Message sending failed with status code:400"}
    assert (await service.metrics(path))["discarded"] == len(expected)
    last = (await service.http.get(f"{path}/undelivered/last")).json()
    assert last["messageId"] == rows[0]["messageId"]
