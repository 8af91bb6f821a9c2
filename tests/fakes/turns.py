"""Counts how often other tasks can run while something is awaited."""

import asyncio
from collections.abc import Awaitable


async def turns_beside(act: Awaitable[object]) -> int:
    """Await `act`, and return how many turns of the loop another task had meanwhile."""
    count = 0

    async def others() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    try:
        await act
    finally:
        task.cancel()
    return count
