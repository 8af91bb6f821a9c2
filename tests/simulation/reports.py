"""Prints the results of seeds."""

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing import get_context
from typing import Final

from tests.simulation.checker import check
from tests.simulation.coverage import STATES, Pair
from tests.simulation.plan import KINDS, Plan, plan_of
from tests.simulation.seeds import Report, run, run_all, shrunk
from tests.simulation.simulation import simulate
from tests.simulation.violation import Violation

# The number of seeds that a process runs before a new process replaces it.
PART: Final = 100
# The maximum number of violations of one seed that are printed.
SHOWN: Final = 8


def settle() -> None:
    """Let the garbage collector skip all imported objects, and look only at what runs create."""
    gc.collect()
    gc.freeze()


def one(seed: int, *, planted: str, plain: bool) -> int:
    """Print a seed's history, and the violations in it."""
    plan, history, violations = run(seed, plain=plain)
    _say(f"{plan}\n")
    for event in history.events:
        _say(str(event))
    _say(f"digest {history.digest()}")
    if violations:
        _say_failed(plan, violations, planted=planted, plain=plain)
    return int(bool(violations))


def digests(seeds: Iterable[int], *, plain: bool) -> int:
    """Print the digest of each seed's history."""
    for seed in seeds:
        _, history, _ = run(seed, plain=plain)
        _say(f"{seed} {history.digest()}")
    return 0


def find(seeds: Sequence[int], *, planted: str) -> int:
    """Print on one line the first seed that fails, and the rules that it violates."""
    report = run_all(seeds, stop_at=1)
    for seed, violations in report.failed.items():
        rules = ", ".join(sorted({each.rule for each in violations}))
        _say(f"{planted}: found by seed {seed} ({rules})")
    if not report.failed:
        _say(f"{planted}: not found in {report.seeds} seeds")
    return int(bool(report.failed))


def many(seeds: Sequence[int], *, planted: str, processes: int, plain: bool) -> int:
    """Print the seeds that fail, and the coverage. The plan of the first one is made smaller."""
    each = partial(run_all, plain=plain)
    report = each(seeds) if processes == 1 else _run_by(processes, seeds, each)
    for number, (seed, violations) in enumerate(report.failed.items()):
        plan = plan_of(seed, plain=plain)
        if number == 0:
            plan = shrunk(plan, violations[0].rule)
            _say_failed(plan, check(plan, simulate(plan)), planted=planted, plain=plain)
        else:
            _say_failed(plan, violations, planted=planted, plain=plain)
    _say(f"{report.seeds} seeds, {len(report.failed)} failed")
    _say_coverage(report)
    return int(bool(report.failed))


def _run_by(
    processes: int, seeds: Sequence[int], each: Callable[[Sequence[int]], Report]
) -> Report:
    """Run seeds in several processes, which are forked from this one after its imports."""
    parts = [seeds[first : first + PART] for first in range(0, len(seeds), PART)]
    report = Report()
    with get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        for part in pool.imap(each, parts, chunksize=1):
            report.add(part)
    return report


def table(report: Report) -> str:
    """Return a table: in how many seeds each fault began in each state."""
    width = max(map(len, KINDS)) + 1
    lines = [" " * width + " ".join(f"{state:>16}" for state in STATES)]
    for kind in sorted(KINDS):
        counts = (report.pairs[Pair(kind, state)] for state in STATES)
        lines.append(f"{kind:<{width}}" + " ".join(f"{count:>16}" for count in counts))
    return "\n".join(lines)


def _say_failed(plan: Plan, violations: Sequence[Violation], *, planted: str, plain: bool) -> None:
    _say(f"\nseed {plan.seed} fails; this is left of its plan:")
    for part in (*plan.topics, *plan.subscriptions, *plan.messages, *plan.acts):
        _say(f"  {part}")
    for violation in violations[:SHOWN]:
        _say(f"  {violation}")
    more = " --plain" * plain + (f" --planted {planted!r}" if planted else "")
    _say(f"  repeat: python -m tests.simulation --seed {plan.seed}{more}")


def _say_coverage(report: Report) -> None:
    _say(table(report))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
