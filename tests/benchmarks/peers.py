"""What a team would write instead of Angelia: a consumer of one topic that posts its messages.

python -m tests.benchmarks.peers NAME BOOTSTRAP TOPIC URL MESSAGES

runs one of them in this process until it has delivered so many messages, and prints its figures.
Each delivers at least once: it commits a batch after its last answer, and tries a message again
until it is taken. The first batch, until which it joins its group and connects, does not count.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import aiohttp
import confluent_kafka
import httpx
from aiokafka import AIOKafkaConsumer

from tests.benchmarks import cores

AIO: Final = "aiokafka + aiohttp, 64 at a time"
CONFLUENT: Final = "confluent-kafka + httpx, one at a time"
IN_FLIGHT: Final = 64
_BATCH: Final = 500
_HEADERS: Final = {"Content-Type": "application/json"}


class Work(NamedTuple):
    """What is delivered, from where, and to where."""

    bootstrap: str
    topic: str
    url: str
    messages: int


class Meter:
    """CPU and time from the end of the first batch on."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._done = self._first = 0
        self._cpu = self._start = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all are delivered."""
        return self._done >= self._messages

    def delivered(self, count: int) -> None:
        """So many more are delivered and committed."""
        if not self._done:
            self._first, self._cpu, self._start = count, time.process_time(), time.perf_counter()
        self._done += count

    def figures(self) -> dict[str, float]:
        """What a delivery took."""
        count = self._done - self._first
        took = time.perf_counter() - self._start
        cpu = time.process_time() - self._cpu
        return {"CPU us/delivery": cpu / count * 1e6, "deliveries/s": count / took}


async def by_aiokafka(work: Work) -> dict[str, float]:
    """On one event loop, with a commit for each batch."""
    meter = Meter(work.messages)
    consumer = AIOKafkaConsumer(
        work.topic,
        bootstrap_servers=work.bootstrap,
        group_id=f"{work.topic}.peer",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
    async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session, consumer:
        while not meter.is_over:
            found = await consumer.getmany(timeout_ms=500, max_records=_BATCH)
            bodies = [record.value for records in found.values() for record in records]
            waiting = iter(bodies)
            await asyncio.gather(*(_posted(session, work.url, waiting) for _ in range(IN_FLIGHT)))
            if bodies:
                await consumer.commit()
                meter.delivered(len(bodies))
        return meter.figures()


async def _posted(session: aiohttp.ClientSession, url: str, bodies: Iterator[bytes]) -> None:
    for body in bodies:
        taken = False
        while not taken:
            async with session.post(url, data=body) as answer:
                await answer.read()
                taken = answer.ok


def by_confluent(work: Work) -> dict[str, float]:
    """In a plain loop, with a commit for each batch."""
    meter = Meter(work.messages)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": f"{work.topic}.peer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([work.topic])
    with httpx.Client(headers=_HEADERS, trust_env=False) as client:
        while not meter.is_over:
            bodies = [found.value() for found in consumer.consume(_BATCH, 0.5) if not found.error()]
            _post_all(client, work.url, [body for body in bodies if body is not None])
            if bodies:
                consumer.commit(asynchronous=False)
                meter.delivered(len(bodies))
        figures = meter.figures()
    consumer.close()
    return figures


def _post_all(client: httpx.Client, url: str, bodies: Sequence[bytes | str]) -> None:
    for body in bodies:
        while not client.post(url, content=body).is_success:
            pass


def main() -> None:
    """Print the figures of one of them."""
    name, bootstrap, topic, url, messages = sys.argv[1:]
    work = Work(bootstrap, topic, url, int(messages))
    with cores.on_cores(cores.MEASURED):
        figures = asyncio.run(by_aiokafka(work)) if name == AIO else by_confluent(work)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
