"""What a scrape of a worker with 1,000 subscriptions costs, and the longest turn of it."""

import asyncio
import gc
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from app.metrics.exposition import exposition
from tests.benchmarks.figures import Report
from tests.fakes.worker import World
from workers.consumer.outcome.latency import Latency
from workers.telemetry.observer import ObservedWorker

SUBSCRIPTIONS: Final = 1_000
PARTITIONS: Final = 8
ROUNDS: Final = 5
COUNTED: Final = 200_000

T = TypeVar("T")


class Seen:
    """Keeps what it is to look at."""

    def __init__(self) -> None:
        self.observed = asyncio.get_running_loop().create_future()

    async def watch(self, observed: ObservedWorker) -> None:
        self.observed.set_result(observed)
        await asyncio.get_running_loop().create_future()


def turns(work: Coroutine[Any, None, T], made: list[T]) -> Iterator[float]:
    """The CPU milliseconds of each turn that the work takes; it waits for nothing but its turns."""
    while True:
        began = time.thread_time()
        try:
            work.send(None)
        except StopIteration as end:
            made.append(end.value)
            return
        finally:
            yield (time.thread_time() - began) * 1000


def scrape(observed: ObservedWorker) -> dict[str, float]:
    """One scrape, all but its way through the network."""
    readings, text = list[Any](), list[bytes]()
    taken = [*turns(observed.read(), readings), *turns(exposition(readings[0]), text)]
    return {
        "CPU ms": sum(taken),
        "longest turn ms": max(taken),
        "series": text[0].count(b"\n") - 2 * text[0].count(b"# HELP "),
        "MB": len(text[0]) / 1e6,
    }


def count() -> dict[str, float]:
    """Requests as a line counts how long they took, the look at the clock with it."""
    latency, began = Latency(), time.thread_time()
    for _ in range(COUNTED):
        latency.add(time.monotonic() - began)
    return {"CPU µs each": (time.thread_time() - began) / COUNTED * 1e6}


async def test_scrapes_of_many_subscriptions() -> None:
    world = World()
    world.metrics_names_max = SUBSCRIPTIONS
    topic = await world.topic(partitions=PARTITIONS)
    for number in range(SUBSCRIPTIONS):
        await world.subscribe(topic, f"s{number}")
    seen = Seen()
    world.observers["w1"] = (seen,)
    report = Report("scrape", f"A scrape of a worker with {SUBSCRIPTIONS:,} subscriptions")
    async with world.worker():
        observed = await seen.observed
        await world.publish(topic, *(b"%d" % each for each in range(2 * PARTITIONS)))
        all_of_it = SUBSCRIPTIONS * 2 * PARTITIONS
        statuses = world.plane.statuses
        await world.plane.until(lambda: sum(s.delivered for s in statuses.values()) >= all_of_it)
        gc.collect()
        gc.freeze()  # as a worker does with what it begins with
        report.add("a scrape", [scrape(observed) for _ in range(ROUNDS)])
    report.add("counting how long a request took", [count() for _ in range(ROUNDS)])
    report.write()
