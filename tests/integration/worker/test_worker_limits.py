"""The hard limit of a subscription over all workers, counted where requests leave."""

from bisect import bisect_right
from contextlib import AsyncExitStack

import pytest

from tests.fakes.worker import World


def most_in_a_second(times: list[float]) -> int:
    # A request leaves a few turns of the loop after it was counted, sooner or later than the last.
    lateness = 0.04
    ordered = sorted(times)
    counts = (
        index + 1 - bisect_right(ordered, at - 1 + lateness) for index, at in enumerate(ordered)
    )
    return max(counts)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("limit", "messages"), [(1, 3), (50, 110), (2_000, 4_400)])
async def test_no_second_has_more_requests_than_the_limit(
    limit: int, messages: int, workers: int
) -> None:
    world = World()
    topic = await world.topic(partitions=9)
    await world.subscribe(topic, rate=limit)
    async with AsyncExitStack() as stack:
        for number in range(workers):
            await stack.enter_async_context(world.worker(f"w{number}"))
        await world.plane.until(lambda: len(world.plane.beats) == workers)
        await world.plane.until_applied()
        await world.publish(topic, *(b"%d" % number for number in range(messages)))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= messages)
    times = [attempt.at for attempt in world.endpoints.attempts]
    assert most_in_a_second(times) <= limit
    # And it is used: nothing waits longer than its rate asks for, and who shares rounds down.
    assert max(times) - min(times) < 1.25 * messages / limit + 1
