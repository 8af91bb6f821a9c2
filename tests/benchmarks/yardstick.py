"""How fast this machine is, so that figures of another one can be scaled.

    python -m tests.benchmarks.yardstick

prints what stock httpx takes for a request with 64 of them at once, in microseconds of CPU: what
the figures of other machines are quoted beside. The loop is the same work everywhere, and takes no
time: its greatest figure in a run shows what else the machine did.
"""

import subprocess
import sys
import time
from functools import cache
from typing import Final

import uvloop

from tests.benchmarks import cores
from tests.benchmarks.clients import STOCK, Case, measure
from tests.benchmarks.receivers import receiver

CONNECTIONS: Final = 64
# On the machine that the goals were set on.
REFERENCE_STOCK_US: Final = (5_342.0, 6_082.0)
_SECONDS: Final = 2.0
_STEPS: Final = 20_000
_TRIES: Final = 5


@cache
def stock_us() -> float:
    """Microseconds of CPU for a request of stock httpx; measured once, in a process of its own."""
    with cores.on_cores(cores.MEASURED):
        command = [sys.executable, "-m", __name__]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(said.stdout)


def loop_us() -> float:
    """Microseconds of CPU for a thousand steps of a plain loop, at the best of a few tries."""
    return min(_loop() for _ in range(_TRIES)) / _STEPS * 1e9


def _loop() -> float:
    start, table = time.process_time(), dict[int, int]()
    for number in range(_STEPS):
        table[number & 255] = table.get(number & 127, 0) + number
    return time.process_time() - start


def said(loop: float, loop_max: float) -> list[str]:
    """The machine, for people to read."""
    least, greatest = REFERENCE_STOCK_US
    ratio = stock_us() / ((least + greatest) / 2)
    loops = f"a thousand steps of a plain loop {loop:.0f} us (at most {loop_max:.0f})"
    stock = f"stock httpx at {CONNECTIONS} connections {stock_us():,.0f} us a request"
    there = f"{least:,.0f} to {greatest:,.0f} where the goals were set"
    return [
        f"yardstick: {loops}; {cores.layout()}",
        f"{stock}, {ratio:.2f} times as much as {there}",
    ]


if __name__ == "__main__":
    with receiver() as (_, url):
        print(uvloop.run(measure(STOCK, Case(url, CONNECTIONS, _SECONDS)))["CPU us/request"])
