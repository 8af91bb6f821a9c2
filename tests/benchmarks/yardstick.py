"""How fast this machine is, so that figures of another one can be scaled.

The loop is the same work everywhere; its greatest figure in a run shows what else the machine did.
Stock httpx at 64 connections is what figures of other machines are quoted beside.
"""

import time
from typing import Final

from tests.benchmarks import cores

# On the machine that the goals were set on.
REFERENCE_STOCK_US: Final = (5_342.0, 6_082.0)
_STEPS: Final = 20_000
_TRIES: Final = 5


def loop_us() -> float:
    """Microseconds of CPU for a thousand steps of a plain loop, at the best of a few tries."""
    return min(_loop() for _ in range(_TRIES)) / _STEPS * 1e9


def _loop() -> float:
    start, table = time.process_time(), dict[int, int]()
    for number in range(_STEPS):
        table[number & 255] = table.get(number & 127, 0) + number
    return time.process_time() - start


def said(loop: float, loop_max: float, stock_us: float | None) -> list[str]:
    """The machine, for people to read."""
    loops = f"yardstick: a thousand steps of a plain loop {loop:.0f} us (at most {loop_max:.0f})"
    lines = [f"{loops}; {cores.layout()}"]
    if stock_us is not None:
        least, greatest = REFERENCE_STOCK_US
        ratio = stock_us / ((least + greatest) / 2)
        lines.append(
            f"stock httpx at 64 connections takes {stock_us:,.0f} us a request here, and"
            f" {least:,.0f} to {greatest:,.0f} where the goals were set: {ratio:.2f} times as long"
        )
    return lines
