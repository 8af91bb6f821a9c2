"""The hard limit of a subscription over all workers, counted where requests leave."""

from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from math import ceil

import pytest

from tests.fakes.worker import World

# From the first message on, until lent rates are in use: three rounds of a second each, and more
# where a second has few messages.
SETTLING_S = 7


def most_in_a_second(times: list[float]) -> int:
    # A request leaves a few turns of the loop after it was counted, sooner or later than the last.
    lateness = 0.04
    return most_within(1 - lateness, times)


def most_within(seconds: float, times: list[float]) -> int:
    ordered = sorted(times)
    counts = (index + 1 - bisect_right(ordered, at - seconds) for index, at in enumerate(ordered))
    return max(counts)


def lasted(times: list[float], *, of: int) -> float:
    """From the first to the last, without what the machine stood still in between."""
    pause = 1.5 / of + 0.1
    return sum(min(later - before, pause) for before, later in pairwise(sorted(times)))


@asynccontextmanager
async def three_workers(world: World) -> AsyncIterator[None]:
    """Three workers with some of the partitions each."""
    async with AsyncExitStack() as stack:
        for number in range(3):
            await stack.enter_async_context(world.worker(f"w{number}"))
        await world.plane.until(lambda: len(world.plane.beats) == 3)
        await world.plane.until_applied()
        yield


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
    # 2,000/s is what a busy machine may not do: the long test below has its time.
    assert limit == 2_000 or lasted(times, of=limit) < 1.25 * messages / limit + 1


# More than 200/s is what a busy machine may not do.
@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (1, 14),
        (50, 4),
        (200, 3),
        pytest.param(400, 3, marks=pytest.mark.long),
        pytest.param(2_000, 3, marks=pytest.mark.long),
    ],
)
async def test_the_only_worker_with_traffic_gets_nearly_the_whole_limit_in_seconds(
    limit: int, seconds: int
) -> None:
    world = World()
    topic = await world.topic(partitions=9)
    subscription = await world.subscribe(topic, rate=limit)
    attempts = world.endpoints.attempts
    enough = ceil(0.9 * limit * seconds)

    async def publish(count: int) -> None:
        await world.publish(topic, *(b"%d" % number for number in range(count)), key=b"one of 9")

    def is_used() -> bool:
        return len(attempts) >= enough and attempts[-1].at - attempts[-enough].at < seconds

    async with three_workers(world):
        await publish(limit * SETTLING_S)
        published = limit * SETTLING_S
        # A machine that is busy with other things is not so fast in the first seconds.
        while not is_used():
            await publish(limit * seconds)
            published += limit * seconds
            await world.endpoints.until(lambda: is_used() or len(attempts) > published - enough)  # noqa: B023 - it is over before the next round
        await publish(limit * seconds)
        await world.plane.until(
            lambda: world.plane.loads[subscription.id].output.rate >= 0.9 * limit
        )
    times = [attempt.at for attempt in attempts]
    assert most_in_a_second(times) <= limit


@pytest.mark.parametrize("limit", [3, 50, 400])
async def test_no_second_has_more_requests_than_the_limit_while_workers_come_and_go(
    limit: int,
) -> None:
    world = World()
    topic = await world.topic(partitions=9)
    await world.subscribe(topic, rate=limit)
    attempts = world.endpoints.attempts

    async def some_seconds(count: int = 2) -> None:
        seen = len(attempts)
        await world.endpoints.until(lambda: len(attempts) >= seen + count * limit)

    async with world.worker("w0"):
        await world.plane.until_applied()
        await world.publish(topic, *(b"%d" % number for number in range(20 * limit)))
        await some_seconds()
        async with world.worker("w1"):
            await some_seconds()
            async with world.doomed_worker("w2"):
                await some_seconds()
            await some_seconds()
        await some_seconds()
    assert most_in_a_second([attempt.at for attempt in attempts]) <= limit
