"""Dead letters through the whole service, on both logs."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.service import eventually, has_all, running
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG

MESSAGES = 50


def own_ids(reader: Subscriber) -> set[str]:
    """Of the messages whose dead letters have come."""
    return {each.headers["angelia-dead-letter-message-id"] for each in reader.received}


@ONE_LOG
async def test_what_a_subscriber_refuses_is_delivered_to_who_takes_its_dead_letters(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(configuration, logs))
        refusing = await stack.enter_async_context(Subscriber(Reply(status=400)))
        reader = await stack.enter_async_context(Subscriber())
        for name in ("letters.orders", "letters.dead"):
            await service.topic(name, partitions=2)
        path = await service.subscribe("letters.orders", "billing", refusing.url)
        await service.subscribe("letters.dead", "reader", reader.url)

        async def applied() -> bool:
            changed = await service.http.patch(path, json={"deadLetter": {"topic": "letters.dead"}})
            return bool(changed.raise_for_status().headers["Angelia-Applied"] == "true")

        await eventually(applied)  # by a worker that may still be starting
        bodies = [b'{ "n":%d}' % number for number in range(MESSAGES)]
        published = await service.publish_all("letters.orders", [(body, "k") for body in bodies])
        await reader.wait_until(lambda: published.keys() <= own_ids(reader))
        await has_all(refusing, published)
        undelivered = await service.undelivered(path, MESSAGES)
    told = {each.headers["angelia-dead-letter-message-id"]: each for each in reader.received}
    assert {own_id: each.body for own_id, each in told.items()} == published
    assert {each["messageId"] for each in undelivered} == set(published)
    for each in reader.received:
        assert each.headers["angelia-dead-letter-status"] == "400"
        assert each.headers["angelia-dead-letter-topic"] == "letters.orders"
        assert each.headers["angelia-dead-letter-subscription"] == "billing"
