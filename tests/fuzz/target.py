"""What is fuzzed: a function that takes any bytes, and beginnings for the fuzzer."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple


class Target(NamedTuple):
    """`check` raises for bytes that show a bug; whatever else they are, it returns.

    `seeds` are bytes from which the fuzzer makes others.
    """

    check: Callable[[bytes], None]
    seeds: Iterable[bytes]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a check on a loop that stays: to make one takes longer than most checks."""
    _loop().run_until_complete(coroutine)


def cuts_and_rest(data: bytes) -> tuple[list[int], bytes]:
    """Two places at which the rest is cut, from the first two bytes."""
    return list(data[:2]), data[2:]


def in_parts(data: bytes) -> list[bytes]:
    """The rest of `data`, cut at its places."""
    cuts, rest = cuts_and_rest(data)
    places = sorted({0, len(rest), *(cut % (len(rest) + 1) for cut in cuts)})
    return [rest[start:end] for start, end in pairwise(places)]
