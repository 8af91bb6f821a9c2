"""What a backlog gets of a core that other processes want as well, while others are live.

    python -m tests.benchmarks.bench_crowded

is a process with a loop: live work comes 60 times a second, and a backlog begins all that the
`Turns` of a worker let it. It runs for some seconds, and prints what it did. Rounds alone and
rounds beside busy neighbours on the same core take turns. The process gets a part of the core, so
the figure to compare is how much of the backlog is done with a second of its CPU time.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvloop

from tests.benchmarks import cores, pace
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from workers.consumer.turns import Turns

NEIGHBOURS: Final = (0, 1, 4)
ROUNDS: Final = 3
ROUND_S: Final = 5.0
LIVE: Final = 60
# As much as a delivery costs.
EACH_S: Final = 30e-6


def test_a_backlog_on_a_crowded_core() -> None:
    found: dict[int, list[dict[str, float]]] = {count: [] for count in NEIGHBOURS}
    for _ in range(ROUNDS):
        for count, rounds in found.items():
            with neighbours(count):
                rounds.append(one_round())
    report = Report("crowded", f"A backlog behind {LIVE} live deliveries a second")
    for count, rounds in found.items():
        report.add(f"{count} busy neighbours", rounds)
    report.write(plots=["backlog/s", "live p99 ms"])


def one_round() -> dict[str, float]:
    """What the process did."""
    with cores.on_cores(cores.MEASURED):
        done = subprocess.run(
            [sys.executable, "-m", __name__], check=True, capture_output=True, text=True
        )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that never wait, on the core of what is measured."""
    with cores.on_cores(cores.MEASURED):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def work() -> None:
    """Use the CPU for one delivery."""
    end = time.thread_time() + EACH_S
    while time.thread_time() < end:
        pass


async def _run() -> None:
    loop, late, done = asyncio.get_running_loop(), list[float](), 0
    turns = Turns(loop, adapts=True)
    start, cpu = loop.time(), time.process_time()

    def pump() -> None:
        nonlocal done
        while turns.take(pump):
            work()
            done += 1

    def live(due: float) -> None:
        turns.live()
        work()
        late.append((loop.time() - due) * 1000)
        loop.call_at(due + 1 / LIVE, live, due + 1 / LIVE)

    live(start)
    pump()
    await pace.until(time.monotonic() + ROUND_S)
    used, seconds = time.process_time() - cpu, loop.time() - start
    figures = {
        "backlog/s": done / seconds,
        "CPU %": 100 * used / seconds,
        "backlog per CPU second": done / used,
        "live p50 ms": percentile(late, 50),
        "live p99 ms": percentile(late, 99),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    uvloop.run(_run())
