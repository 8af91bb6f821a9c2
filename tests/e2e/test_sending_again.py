"""Retransmissions on their way, on both logs: their worker killed, and cancelled half-way."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.chosen import chosen, ends_of
from tests.e2e.service import PATIENCE_S, Service, eventually, has_all, running
from tests.e2e.test_crashes import lag_of
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "again.orders"
PARTITIONS = 4
MESSAGES = 800
MARK = "hermes-retransmission"
IN_FLIGHT = 20
LATENCY_S = 0.05
# The one that is cancelled appends so many a second. It is faster than its subscriber, so most of
# what it has appended is still in the log.
FEW = 20
FEW_IN_FLIGHT = 4
SLOW_S = 0.5


async def published_before(service: Service) -> dict[str, bytes]:
    """All that there is to send again; no subscription gets it otherwise."""
    await service.topic(TOPIC, partitions=PARTITIONS)
    bodies = [(b"%d" % number, f"{number}") for number in range(MESSAGES)]
    return await service.publish_all(TOPIC, bodies)


async def until_ended(service: Service, where: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def has_ended() -> bool:
        seen.update((await service.http.get(where)).raise_for_status().json())
        return seen["state"] in {"DONE", "FAILED", "CANCELLED"}

    await eventually(has_ended)
    return seen


@ONE_LOG
async def test_a_worker_killed_while_it_sends_them_leaves_none_out_and_none_is_appended_twice(
    configuration: Mapping[str, str], logs: Path
) -> None:
    slow = Reply(delay=LATENCY_S)
    async with running(configuration, logs, workers=0) as service, Subscriber(slow) as receiver:
        published = await published_before(service)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
        ends = await ends_of(service, path)
        where = await chosen(configuration["ANGELIA_DATABASE_URL"], path, ends)
        first = await service.worker()
        await receiver.wait_for(MESSAGES // 3, PATIENCE_S)
        await first.kill()
        killed_at, appended = len(receiver.received), sum(await ends_of(service, path)) - sum(ends)
        finished = appended - await lag_of(service, path)
        await service.worker()
        seen = await until_ended(service, where)
        assert (seen["state"], seen["counts"]["written"]) == ("DONE", MESSAGES)
        after = await ends_of(service, path)
    assert killed_at < MESSAGES
    assert sum(after) - sum(ends) == MESSAGES
    assert set(receiver.message_ids) == set(published)
    twice = len(receiver.received) - MESSAGES
    # What had come and was not committed.
    assert twice <= killed_at - finished


@ONE_LOG
async def test_what_one_subscription_is_sent_again_no_other_one_gets_nor_counts_as_its_own(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs) as service,
        Subscriber() as receiver,
        Subscriber() as others,
    ):
        published = await published_before(service)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        live = await service.subscribe(TOPIC, "live", others.url, rate=1)
        resting = await service.subscribe(TOPIC, "resting", others.url, rate=1)
        await service.set_state(resting, "SUSPENDED")
        ends = await ends_of(service, path)
        where = await chosen(configuration["ANGELIA_DATABASE_URL"], path, ends)
        assert (await until_ended(service, where))["state"] == "DONE"
        # They are records of the topic, and counted as these.
        topic = (await service.http.get(f"/topics/{TOPIC}/metrics")).raise_for_status().json()
        assert topic["published"] == 2 * MESSAGES
        assert await lag_of(service, resting) == MESSAGES
        await service.set_state(resting, "ACTIVE")

        async def all_passed() -> bool:
            return all([await lag_of(service, each) == 0 for each in (live, resting)])

        # At one a second they would be there for long.
        await eventually(all_passed)
        await has_all(receiver, published)
        for each in (live, resting):
            metrics = await service.metrics(each)
            assert [metrics[name] for name in ("delivered", "discarded", "filtered")] == [0, 0, 0]
    assert others.received == []
    service.assert_once(receiver.message_ids, published)


@ONE_LOG
async def test_one_that_is_cancelled_half_way_stops_soon_and_the_rest_goes_on(
    configuration: Mapping[str, str], logs: Path
) -> None:
    slow = Reply(delay=SLOW_S)
    async with running(configuration, logs) as service, Subscriber(slow) as receiver:
        await published_before(service)
        path = await service.subscribe(
            TOPIC, "s", receiver.url, rate=FEW, inflightSize=FEW_IN_FLIGHT
        )
        ends = await ends_of(service, path)
        where = await chosen(configuration["ANGELIA_DATABASE_URL"], path, ends)
        await receiver.wait_for(FEW, PATIENCE_S)
        deleted_at = time.monotonic()
        (await service.http.delete(where)).raise_for_status()
        await service.applied(path)
        came_by_then, receiver.reply = len(receiver.received), Reply()
        # They come behind all that was appended, in each partition.
        new = await service.publish_all(TOPIC, [(b'"new"', f"{n}") for n in range(10 * PARTITIONS)])

        async def all_passed() -> bool:
            return bool((await service.metrics(path))["lag"] == 0)

        await eventually(all_passed)
        seen = await until_ended(service, where)
    assert seen["state"] == "CANCELLED"
    again = [each for each in receiver.received if MARK in each.headers]
    assert len(again) >= FEW
    # By then, they were sent and not here. None is sent later.
    assert len(again) - came_by_then <= FEW_IN_FLIGHT
    print(f"the last came {again[-1].at - deleted_at:.2f} s after the cancellation")  # noqa: T201 - a figure to read with -rP
    came = [each.message_id for each in receiver.received if MARK not in each.headers]
    service.assert_once(came, new)
