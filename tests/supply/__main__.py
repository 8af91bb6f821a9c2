"""`python -m tests.supply`: what the project gets from others, and what it might give away.

    python -m tests.supply                        # all checks
    python -m tests.supply --only secrets locks   # some
    python -m tests.supply --offline              # all but those that need the network

The exit code is 1 if something is wrong, and 3 if nothing is, but a check could not be made.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.supply import bandit_findings, bills, leaks, locks, weaknesses
from tests.supply.found import BAD, UNCHECKED, Found

CHECKS: Final[Mapping[str, Callable[[], Found]]] = {
    "locks": locks.ages,
    "sbom": bills.difference,
    "secrets": leaks.scanned,
    "bandit": bandit_findings.findings,
    "weaknesses": weaknesses.known,
}
_ONLINE: Final = frozenset({"weaknesses"})
PROBLEMS: Final = 1
INCOMPLETE: Final = 3


def main(arguments: Sequence[str]) -> int:
    """Run the checks, print what they found, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.supply")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=tuple(CHECKS))
    parser.add_argument("--offline", action="store_true")
    chosen = parser.parse_args(arguments)
    verdicts = set()
    for name in chosen.only:
        left_out = chosen.offline and name in _ONLINE
        found = Found(unchecked="left out, by --offline") if left_out else CHECKS[name]()
        verdicts.add(found.verdict)
        show(name, found)
    if BAD in verdicts:
        return PROBLEMS
    return INCOMPLETE if UNCHECKED in verdicts else 0


def show(name: str, found: Found) -> None:
    """Print what a check found."""
    said = [f"{name}: {found.verdict}", *(f"  {line}" for line in found.lines)]
    said += [f"  WRONG: {problem}" for problem in found.problems]
    if found.unchecked:
        said.append(f"  NOT CHECKED: {found.unchecked}")
    sys.stdout.write("\n".join(said) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
