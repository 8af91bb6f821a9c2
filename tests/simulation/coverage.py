"""Counts in which states of the system faults begin: each pair of a fault and a state counts."""

from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from tests.simulation.history import Fault, History
from tests.simulation.plan import KINDS, Plan
from tests.simulation.story import Attempt, Life, Story

# The states that the system may have when a fault begins.
STATES: Final = (
    "idle",
    "in flight",
    "retry waits",
    "uncommitted",
    "told later",
    "discarded lately",
    "handing over",
    "suspended",
    "another fault",
)
# For how many seconds an event counts as recent ("lately").
LATELY_S: Final = 0.4


class Pair(NamedTuple):
    """A fault or a change, and a state of the system when it began."""

    fault: str
    state: str


def pairs_of(plan: Plan, history: History) -> set[Pair]:
    """Return the pairs of faults and states in a history."""
    story = Story(plan, history)
    begun = {
        (event.what, event.at)
        for event in history.events
        if isinstance(event, Fault) and event.begins
    }
    return {
        Pair(what, state)
        for what, at in begun
        if what in KINDS
        for state in _states(story, at) or ("idle",)
    }


def _states(story: Story, at: float) -> set[str]:
    found = {state for life in story.lives.values() for state in _of_life(life, at)}
    moved = (each.at for each in story.owned if not each.gained)
    if any(at - LATELY_S <= each <= at for each in moved):
        found.add("handing over")
    if sum(trouble.begins < at < trouble.ends for trouble in story.troubles) > 0:
        found.add("another fault")
    return found


def _of_life(life: Life, at: float) -> Iterator[str]:
    for attempts in life.attempts.values():
        sent = [each for each in attempts if each.sent.at <= at]
        if sent:
            yield from _of_message(sent[-1], at, is_last=sent[-1] is attempts[-1])
    if any(at - LATELY_S <= each.at <= at for each in life.discarded):
        yield "discarded lately"
    ordered = [each for each in life.ordered if each.at < at]
    if ordered and ordered[-1].what == "suspend":
        yield "suspended"


def _of_message(last: Attempt, at: float, *, is_last: bool) -> Iterator[str]:
    if at < last.ended_at:
        yield "in flight"
    elif last.delivered_at < inf:
        if at - last.delivered_at < LATELY_S:
            yield "uncommitted"
    elif not is_last:
        yield "retry waits"
        if last.heard is not None and last.heard.retry_after is not None:
            yield "told later"
