"""Appends to the embedded log until it is killed.

`python -m tests.integration.log.appending URL NAMESPACE TOPIC` prints each value once its append
was acknowledged.
"""

import asyncio
import sys

from app.domain.message import NewRecord
from app.log.interface import MessageLog
from app.log.postgres import postgres_log

PUBLISHERS = 20


async def publish(log: MessageLog, topic: str, publisher: int) -> None:
    number = 0
    while True:
        # Now one record, now enough of them for COPY.
        batch = [f"{publisher}-{number + n}" for n in range(60 if number % 7 == 0 else 1)]
        await log.append(topic, [NewRecord(value=value.encode()) for value in batch])
        number += len(batch)
        print("\n".join(batch), flush=True)  # noqa: T201 - this is what the test reads


async def main(url: str, namespace: str, topic: str) -> None:
    async with postgres_log(url, namespace=namespace) as log, asyncio.TaskGroup() as tasks:
        for publisher in range(PUBLISHERS):
            tasks.create_task(publish(log, topic, publisher))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
