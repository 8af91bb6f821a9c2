"""A member of the ownership group in a process of its own, to be killed.

`python -m tests.contract.member KIND ADDRESS NAMESPACE NAME TOPIC…` prints, at each event, how many
partitions it owns. It never releases anything.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from app.config import Settings
from app.log.interface import Assigned, MessageLog
from tests.contract.harness import opened_log
from tests.servers.kafka_listeners import SecuredAddress


async def main(
    opened: AbstractAsyncContextManager[MessageLog], name: str, topics: Sequence[str]
) -> None:
    owned = 0
    async with opened as log, log.ownership(member=name) as ownership:
        ownership.subscribe(topics)
        async for event in ownership.events():
            if isinstance(event, Assigned):
                owned += len(event.partitions)
            print(owned, flush=True)  # noqa: T201 - this is what the test reads


if __name__ == "__main__":
    kind, address, namespace, name, *topics = sys.argv[1:]
    place = SecuredAddress(address, Settings().kafka_security)
    asyncio.run(main(opened_log(kind, place, namespace), name, topics))
