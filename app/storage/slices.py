"""Divides long work on the event loop into steps, so that other work can run in between."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

# The number of objects in one step, which takes some milliseconds.
AT_ONCE: Final = 25

T = TypeVar("T")
MadeT = TypeVar("MadeT")


async def made_of(items: Iterable[T], make: Callable[[T], MadeT]) -> list[MadeT]:
    """Call `make` for each item, and return the results.

    After every AT_ONCE items, other work of the event loop can run.
    """
    made: list[MadeT] = []
    for number, item in enumerate(items, 1):
        made.append(make(item))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return made
