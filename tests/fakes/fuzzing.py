"""Reads damaged requests or answers for some time, and compares Angelia's parsers with h11.

A parser must read a message as h11 does, or refuse it. `python -m tests.fakes.fuzzing requests 300`
reads requests for 300 seconds, and `answers` instead of `requests` reads answers. A third argument
is the seed. Each difference is printed, and at the end their number.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tests.fakes import answer_reading, request_reading
from tests.fakes.spoiling import random_spoilings, spoilt

_CUTS_MAX: Final = 4
_PLACES: Final = 400


class Found(NamedTuple):
    """The number of messages that were read, and the differences from h11."""

    messages: int
    differences: list[str]


async def _of_answer(said: bytes, cuts: Sequence[int]) -> str | None:
    return answer_reading.difference(said, cuts)


KINDS: Final[dict[str, tuple[Sequence[bytes], Callable[..., Awaitable[str | None]]]]] = {
    "requests": (request_reading.GOOD_REQUESTS, request_reading.difference),
    "answers": (answer_reading.GOOD_ANSWERS, _of_answer),
}


async def read_spoilt(kind: str, random: Random, goes_on: Callable[[], bool]) -> Found:
    """Read random damaged messages of a kind, as long as `goes_on` returns true."""
    good, difference = KINDS[kind]
    count, differences = 0, list[str]()
    while goes_on():
        said = spoilt(random.choice(good), random_spoilings(random))
        cuts = [random.randrange(_PLACES) for _ in range(random.randrange(_CUTS_MAX))]
        count += 1
        if found := await difference(said, cuts):
            differences.append(f"{said!r} in parts at {cuts}: {found}")
    return Found(count, differences)


def main(kind: str, seconds: str, seed: str = "1") -> int:
    """Print the differences, and return 1 if there was any."""
    end = time.monotonic() + float(seconds)
    random = Random(int(seed))
    found = asyncio.run(read_spoilt(kind, random, lambda: time.monotonic() < end))
    for each in found.differences:
        sys.stdout.write(f"{each}\n")
    sys.stdout.write(
        f"{found.messages} {kind} (seed {seed}): {len(found.differences)} differences\n"
    )
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
