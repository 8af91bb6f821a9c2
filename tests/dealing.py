"""The order of tests where several processes share them: each begins with what takes longest.

pytest-xdist gives every process as many, in this order, and who is done takes over from the end of
another's. What takes long must not come last then: all would wait for the one that has it.
"""

import fcntl
import os
from collections.abc import Generator, Iterable, Sequence
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import pytest

# All of them to one process, as far as it comes: who has one of them starts a Spark.
SPARK: Final = "tests/spark/"
# Dealt out to the others.
LONG: Final = (
    "tests/integration/api/openapi/test_schemathesis.py",
    "tests/integration/api/access/test_access_matrix.py",
    "tests/e2e/",
)
# Dealt out by file: a file may have a service for all its tests.
BY_FILE: Final = "tests/e2e/"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the first process compile the tests, and the others wait to read what it has written.

    Else each compiles them all in a fresh clone, which takes three times the CPU of reading them.
    """
    folder = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(folder, fcntl.LOCK_SH)
    try:
        return (yield)
    finally:
        os.close(folder)


@pytest.hookimpl(trylast=True)  # after those that are not to be run were left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put them in order, in each of the processes the same; a process alone keeps its own."""
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    places = {id_: place for place, id_ in enumerate(dealt([i.nodeid for i in items], processes))}
    items.sort(key=lambda item: places[item.nodeid])


def dealt(ids: Sequence[str], processes: int) -> list[str]:
    """All of them, so that each of `processes` equal parts begins with what takes long."""
    if processes == 1:
        return list(ids)
    heads = _heads(ids, processes)
    taken = {id_ for head in heads for id_ in head}
    # Mixed by module, so that tests that wait run beside tests that compute.
    mixed = sorted([id_ for id_ in ids if id_ not in taken], key=_place_of_module)
    rest, order = iter(mixed), list[str]()
    for number, head in enumerate(heads):
        size = (len(ids) - len(order)) // (processes - number)
        order += [*head, *islice(rest, max(0, size - len(head)))]
    return [*order, *rest]


def _heads(ids: Iterable[str], processes: int) -> list[list[str]]:
    """What each begins with: one with Spark, the others with the rest of what takes long."""
    ids = list(ids)
    heads: list[list[str]] = [[] for _ in range(processes)]
    heads[0] += [id_ for id_ in ids if id_.startswith(SPARK)]
    long = [id_ for begin in LONG for id_ in ids if id_.startswith(begin)]
    for number, (_, unit) in enumerate(groupby(long, _unit)):
        heads[1 + number % (processes - 1)] += unit
    return heads


def _place_of_module(id_: str) -> bytes:
    return sha256(id_.partition("::")[0].encode()).digest()


def _unit(id_: str) -> str:
    return id_.partition("::")[0] if id_.startswith(BY_FILE) else id_
