"""Long work on the event loop, in turns: what publishes on it waits for one of them at most."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

# Resources that are made of rows, or answers of resources, in a turn: some milliseconds.
AT_ONCE: Final = 25

T = TypeVar("T")
MadeT = TypeVar("MadeT")


async def made_of(items: Iterable[T], make: Callable[[T], MadeT]) -> list[MadeT]:
    """What `make` makes of each, with the loop free for others after each AT_ONCE of them."""
    made: list[MadeT] = []
    for number, item in enumerate(items, 1):
        made.append(make(item))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return made
