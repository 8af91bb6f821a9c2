"""Publishers who wait, through the whole service, on both logs."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.service import eventually, running
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "waiting.orders"
WAITERS = 100


def fails_once(received: Received) -> Reply:
    return Reply(status=503 if received.retry_count == 0 else 200)


@ONE_LOG
async def test_who_waits_is_told_what_became_of_the_message(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(configuration, logs))
        good = await stack.enter_async_context(Subscriber(fails_once))
        bad = await stack.enter_async_context(Subscriber(Reply(status=400)))
        await service.topic(TOPIC)
        await service.subscribe(TOPIC, "good", good.url)
        asleep = await service.subscribe(TOPIC, "asleep", good.url)
        await service.subscribe(TOPIC, "bad", bad.url)

        async def applied() -> bool:
            answer = await service.set_state(asleep, "SUSPENDED")
            return bool(answer.headers["Angelia-Applied"] == "true")

        await eventually(applied)  # by a worker that may still be starting

        async def published(number: int) -> dict[str, object]:
            answer = await service.http.post(f"/topics/{TOPIC}?wait=30s", content=b"%d" % number)
            assert answer.status_code == 201
            return {each["name"]: each["outcome"] for each in answer.json()["subscriptions"]}

        told = await asyncio.gather(*(published(number) for number in range(WAITERS)))
        assert told == [{"asleep": "SUSPENDED", "bad": "DISCARDED", "good": "DELIVERED"}] * WAITERS
    for number in (0, 1):
        tries = [each.message_id for each in good.received if each.retry_count == number]
        service.assert_once(tries, set(tries))
        assert len(set(tries)) == WAITERS
