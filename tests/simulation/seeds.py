"""Runs seeds: finds violations, makes failing plans smaller, and counts the coverage."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tests.simulation.checker import check
from tests.simulation.coverage import Pair, pairs_of
from tests.simulation.history import History
from tests.simulation.plan import Plan, plan_of
from tests.simulation.simulation import simulate
from tests.simulation.violation import Violation

T = TypeVar("T")

# The maximum number of runs while a plan is made smaller.
SHRINKS_MAX: Final = 120


@dataclass(slots=True)
class Report:
    """The results of some seeds."""

    seeds: int = 0
    failed: dict[int, list[Violation]] = field(default_factory=dict)
    pairs: Counter[Pair] = field(default_factory=Counter)

    def add(self, other: "Report") -> None:
        """Add the results of other seeds."""
        self.seeds += other.seeds
        self.failed |= other.failed
        self.pairs.update(other.pairs)


def run(seed: int, *, plain: bool = False) -> tuple[Plan, History, list[Violation]]:
    """Run one seed; return its plan, its history and the violations."""
    plan = plan_of(seed, plain=plain)
    history = simulate(plan)
    return plan, history, check(plan, history)


def run_all(seeds: Iterable[int], *, stop_at: int | None = None, plain: bool = False) -> Report:
    """Run seeds, until `stop_at` of them have failed."""
    report = Report()
    for seed in seeds:
        plan, history, violations = run(seed, plain=plain)
        report.seeds += 1
        report.pairs.update(pairs_of(plan, history))
        if violations:
            report.failed[seed] = violations
        if stop_at is not None and len(report.failed) >= stop_at:
            break
    return report


def shrunk(plan: Plan, rule: str) -> Plan:
    """Return a smaller plan that violates the same rule, with fewer faults and messages."""
    runs = iter(range(SHRINKS_MAX))

    def fails(smaller: Plan) -> bool:
        if next(runs, None) is None:
            return False
        return any(each.rule == rule for each in check(smaller, simulate(smaller)))

    plan = plan.without(acts=_fewer(plan.acts, lambda acts: fails(plan.without(acts=acts))))
    smaller = plan
    plan = plan.without(
        messages=_fewer(plan.messages, lambda some: fails(smaller.without(messages=some)))
    )
    fewer = plan
    plan = plan.without(
        subscriptions=_fewer(
            plan.subscriptions, lambda some: bool(some) and fails(fewer.without(subscriptions=some))
        )
    )
    for workers in range(1, plan.workers):
        if fails(plan.without(workers=workers)):
            return plan.without(workers=workers)
    return plan


def _fewer(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Leave out parts of `items`, large parts first, as long as the plan still fails."""
    size = len(items)
    while size:
        for some in _without_a_part(items, size):
            if fails(some):
                items = some
                break
        else:
            size //= 2
        size = min(size, len(items))
    return items


def _without_a_part(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), size):
        yield [*items[:first], *items[first + size :]]
