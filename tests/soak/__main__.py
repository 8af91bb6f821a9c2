"""`python -m tests.soak`: hours of a real service on Kafka, with churn, and what it uses meanwhile.

    python -m tests.soak --minutes 120               # at the rate that takes 60 % of a core
    python -m tests.soak --minutes 10 --rate 40      # at a rate of your own

It writes `soak.csv`, `soak.png` and `soak.txt` to `build/soak`. The exit code is 1 if a curve is
not flat, a message is lost, or a process ended. docs/reliability.md says how to read it. Ctrl-C
ends all that it started, and writes what there is.
"""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from tests.architecture.tree import ROOT
from tests.servers.kafka import running_broker
from tests.servers.postgres import PostgresServer
from tests.soak.plan import Plan
from tests.soak.recorder import Recorder
from tests.soak.report import Report
from tests.soak.run import Soak

FOLDER: Final = ROOT / "build" / "soak"


def main(arguments: Sequence[str]) -> int:
    """Soak, write what came of it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--rate", type=float, help="messages a second; default: what takes --cores")
    parser.add_argument("--cores", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    plan = Plan(seconds=60 * chosen.minutes, rate=chosen.rate, cores=chosen.cores, seed=chosen.seed)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    # An order to end is obeyed as a Ctrl-C is.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    return soaked(plan, FOLDER)


def soaked(plan: Plan, folder: Path) -> int:
    """Run a soak; return the exit code."""
    with Recorder(folder / "soak.csv") as recorder:
        report = Report(folder, plan)
        try:
            with PostgresServer() as database, running_broker() as broker:
                uvloop.run(Soak(plan, recorder, report).run(database.url, broker.bootstrap))
        except KeyboardInterrupt:
            report.interrupted = True
    report.write(recorder)
    return report.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
