"""`python -m tests.simulation`: runs seeds in a new process, which imports the product again.

    python -m tests.simulation --seed 7                 # one seed: its history, and what is wrong
    python -m tests.simulation --seeds 0 300            # many: those that fail, and the coverage
    python -m tests.simulation --each 7 30              # the same for some
    python -m tests.simulation --seed 7 --planted NAME  # with a bug of `planted_bugs.py`
    python -m tests.simulation --seed 7 --plain         # without what later versions have added

If a seed fails, its plan is made smaller, and printed with the line that repeats it. The exit code
is 1 if any seed failed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# With these variables, sets of texts have the same order in each process, and no compiled modules
# run.
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0", "ANGELIA_INTERPRETED": "1"}


def main(arguments: Sequence[str]) -> int:
    """Run the seeds that the arguments name, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FROM", "TO"))
    parser.add_argument("--each", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--planted", default="")
    parser.add_argument("--find", action="store_true", help="stop at the first, as it is")
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--plain", action="store_true", help="without later additions")
    chosen = parser.parse_args(arguments)
    # Import the loader before any module of the product.
    from tests.simulation import loader  # noqa: PLC0415 - not before ENVIRONMENT is set
    from tests.simulation.planted_bugs import PLANTED  # noqa: PLC0415 - the same

    loader.install(PLANTED[chosen.planted].replaced if chosen.planted else ())
    from tests.simulation import reports  # noqa: PLC0415 - imports the product

    reports.settle()
    if chosen.seed is not None:
        return reports.one(chosen.seed, planted=chosen.planted, plain=chosen.plain)
    seeds = chosen.each or range(*(chosen.seeds or (0, 300)))
    if chosen.digests:
        return reports.digests(seeds, plain=chosen.plain)
    if chosen.find:
        return reports.find(seeds, planted=chosen.planted)
    return reports.many(
        seeds,
        planted=chosen.planted,
        processes=chosen.processes,
        plain=chosen.plain,
    )


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.chdir(ROOT)
        os.execve(sys.executable, command, {**os.environ, **ENVIRONMENT})  # noqa: S606 - itself
    sys.exit(main(sys.argv[1:]))
