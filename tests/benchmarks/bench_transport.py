"""CPU per request of our transport, of stock httpx, aiohttp and wrk, against one receiver.

    python -m tests.benchmarks.bench_transport [--seconds 1] [--rounds 3] [--connections 1 64 256]

Rounds go around all clients, so that a machine that is busy for a while spoils a round of each, not
all of one. CPU is this process's user and system time (wrk: its own); it is the figure to compare,
because it hardly depends on what else the machine does. `make bench` also measures 2,000
connections to a receiver that answers after 20 ms. Also written to `build/bench/transport*`.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence

import uvloop

from tests.benchmarks import cores
from tests.benchmarks.clients import CLIENTS, STOCK, WRK, Case, by_wrk, has_wrk, measure
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver, slow_receiver

ROUNDS = 3
SECONDS = 1.0
# With more connections a request of stock httpx takes many seconds.
STOCK_MAX = 64
MANY = 2_000
FAR_MS = 20


def compare(report: Report, cases: Iterable[Case], *, rounds: int) -> None:
    """Measure every client in each case, and add the rows."""
    for case in cases:
        found = defaultdict[str, list[dict[str, float]]](list)
        for _ in range(rounds):
            for client in clients(case):
                found[client].append(one(client, case))
        stock = found.get(STOCK)
        for client, figures in found.items():
            if stock:
                for mine, theirs in zip(figures, stock, strict=True):
                    mine["times stock"] = theirs["CPU us/request"] / mine["CPU us/request"]
            report.add(f"{case.connections} connections, {client}", figures)


def clients(case: Case) -> list[str]:
    """Those that are worth measuring there."""
    names = [name for name in CLIENTS if name != STOCK or case.connections <= STOCK_MAX]
    return [*names, WRK] if has_wrk() else names


def one(client: str, case: Case) -> dict[str, float]:
    """One round of one client."""
    with cores.on_cores(cores.MEASURED):
        return by_wrk(case) if client == WRK else uvloop.run(measure(client, case))


def near(connections: Sequence[int], *, seconds: float, rounds: int) -> None:
    """Against a receiver that answers at once."""
    with receiver() as (name, url):
        report = Report("transport", f"1-KB POSTs to {name}, uvloop")
        cases = [Case(url, count, seconds) for count in connections]
        compare(report, cases, rounds=rounds)
    report.write(plots=("CPU us/request", "p99 ms"))


def test_transport_against_others() -> None:
    near((1, 16, 64, 256), seconds=SECONDS, rounds=ROUNDS)


def test_many_connections_to_a_receiver_that_takes_its_time() -> None:
    with slow_receiver(FAR_MS) as (name, url):
        report = Report("transport-far", f"1-KB POSTs to one that {name}, uvloop")
        compare(report, [Case(url, connections, 2.0) for connections in (64, MANY)], rounds=ROUNDS)
    report.write(plots=("CPU us/request", "requests/s"))


def main() -> None:
    """Run with other figures than `make bench` does."""
    parser = argparse.ArgumentParser(description="Our transport against stock httpx and others.")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64, 256])
    arguments = parser.parse_args()
    near(arguments.connections, seconds=arguments.seconds, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
