"""Long work on the event loop in steps: publishing waits for one step at most."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

# The number of resources or responses in one step: some milliseconds.
AT_ONCE: Final = 25

T = TypeVar("T")
MadeT = TypeVar("MadeT")


async def made_of(items: Iterable[T], make: Callable[[T], MadeT]) -> list[MadeT]:
    """Return `make` of each, with the loop free for other work after each AT_ONCE of them."""
    made: list[MadeT] = []
    for number, item in enumerate(items, 1):
        made.append(make(item))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return made
