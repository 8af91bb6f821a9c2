"""A worker that delivers batches of CloudEvents, on a log in memory."""

from dataclasses import replace

import orjson

from app.domain.catalogue.subscription import ContentMode
from tests.fakes.worker import World, delivered
from tests.integration.worker.batching import URL, numbers, subscribed


async def test_batches_become_batches_of_events_when_that_is_asked_for() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    plain = await subscribed(world, topic, batch_size=3)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(5), key=b"k")
        await world.plane.until(lambda: delivered(world, plain.id) == 3)
        world.plane.put(replace(plain, content_mode=ContentMode.CE_STRUCTURED))
        await world.plane.until_applied()
        await world.publish(topic, *numbers(5, 6), key=b"k")
        await world.plane.until(lambda: delivered(world, plain.id) == 6)
    first, second = (orjson.loads(body) for body in world.endpoints.bodies(URL))
    assert first == [0, 1, 2]
    assert [event["data"] for event in second] == [3, 4, 5]
    assert {event["type"] for event in second} == {topic.name}
    assert [event["partitionkey"] for event in second] == ["k"] * 3
