"""A name stands for one thing: in app, workers and spark together. Riddles have been retired."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.tree import Module, modules, parsed

# No module, class or function in these folders has a retired word in its name.
PLAIN: Final = ("app", "spark", "workers")

# Each word with what is said instead: words of the field, and of docs/glossary.md.
RETIRED: Final[Mapping[str, str]] = {
    "addressed": "targeted",
    "alarm": "wakeup timer",
    "asked": "requested",
    "borrowing": "borrower",
    "crew": "owner",
    "crowded": "contended",
    "crowding": "CPU contention",
    "decoding": "decoder",
    "dialing": "dialer",
    "fate": "outcome, discard handler",
    "figures": "metrics, statistics",
    "flies": "is in flight",
    "flights": "requests in flight",
    "forsake": "cancel",
    "forsaken": "cancelled",
    "gauge": "health evaluator",
    "goodbye": "go away",
    "hear": "read, receive",
    "heard": "read, received",
    "hears": "reads, receives",
    "hush": "stay quiet",
    "intake": "source",
    "landed": "on_response, ended",
    "landing": "response, listener",
    "lending": "lender",
    "life": "producer epoch",
    "lives": "producer epochs",
    "looker": "collector",
    "looking": "a noun: what the module has",
    "park": "retry queue",
    "parked": "waiting retries",
    "patience": "deadline, timeout",
    "prospects": "forecast",
    "pulse": "stall watchdog",
    "resending": "retransmission",
    "resolving": "resolver",
    "say": "report, write",
    "saying": "reporting",
    "schemata": "schemas",
    "settling": "retractions",
    "sighting": "cluster snapshot",
    "sightings": "cluster snapshots",
    "spared": "paused for",
    "standing": "subscription health, state",
    "standings": "subscription health, states",
    "stands": "is paused",
    "stood": "paused for",
    "sweep": "deadline timer",
    "tell": "report, notify, post",
    "told": "reported, notified",
    "tunneling": "tunneler",
    "untold": "unpublished",
    "void": "retraction",
    "voids": "retractions",
    "whose": "which",
    "wish": "request",
}


# No variable or argument in these folders has one of these words in its name: they do not tell what
# the value is.
RETIRED_OF_VALUES: Final = {"asked", "place", "places", "said", "told", "whose"}


def test_no_public_class_name_stands_for_two_things() -> None:
    places = defaultdict[str, list[str]](list)
    for module in modules("app", "workers", "spark"):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    assert len(places) > 1_000
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, "these names are taken: choose another for the new class"


def test_no_name_has_a_retired_word() -> None:
    found = [each for module in modules(*PLAIN) for each in retired(module)]
    assert not found, "\n" + "\n".join(found)


def test_values_are_named_by_what_they_are() -> None:
    found = [each for module in modules(*PLAIN, "angelia_client") for each in vague(module)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text", ["said = 1", "def a(told): ...", "def a(*, asked_at): ...", "a.last_place = 1"]
)
def test_a_vague_name_of_a_value_is_found(text: str) -> None:
    assert list(vague(parsed("workers/delivery/a.py", text)))
    assert not list(vague(parsed("workers/delivery/a.py", "replace = a.said(told)")))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("workers/delivery/pulse.py", ""),
        ("workers/delivery/a.py", "class RetryPark: ..."),
        ("workers/delivery/a.py", "class HTTPPatience: ..."),
        ("workers/delivery/a.py", "class A:\n    async def _landed_alone(self): ..."),
    ],
)
def test_a_retired_word_is_found(path: str, text: str) -> None:
    assert list(retired(parsed(path, text)))


@pytest.mark.parametrize("name", ["landedness", "lifetime", "alive", "stallwatchdog"])
def test_a_word_within_another_is_none(name: str) -> None:
    assert not list(retired(parsed(f"workers/{name}.py", f"def {name}(): ...")))


def retired(module: Module) -> Iterator[str]:
    """The names in a module that have retired words, each with what to say instead."""
    for name in _names(module):
        for word in words_of(name):
            if word in RETIRED:
                yield f"{module.path}: {name} ({word}: say {RETIRED[word]})"


def vague(module: Module) -> Iterator[str]:
    """The names of variables, attributes and arguments that have a word of RETIRED_OF_VALUES."""
    for node in ast.walk(module.tree):
        match node:
            case ast.arg(arg=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if not RETIRED_OF_VALUES.isdisjoint(words_of(name)):
            yield f"{module.path}: {name}"


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _names(module: Module) -> Iterator[str]:
    yield from Path(module.path).with_suffix("").parts
    yield from (node.name for node in module.classes())
    yield from (function.name for _, function in module.functions())
