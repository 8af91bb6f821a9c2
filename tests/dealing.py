"""The order of the tests, if several processes share them: each process begins with long tests.

pytest-xdist gives each process an equal part of the tests, in this order. A process that has
finished its part takes tests from the end of another part. So a long test must not come last: all
processes would wait for the one that runs it.
"""

import fcntl
import os
from collections.abc import Generator, Iterable, Sequence
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import pytest

# Give these tests to one process, as far as possible: each process that runs one of them must start
# Spark.
SPARK: Final = "tests/spark/"
# Give these long tests to the other processes.
LONG: Final = (
    "tests/integration/api/openapi/test_schemathesis.py",
    "tests/integration/api/access/test_access_matrix.py",
    "tests/e2e/console/",
    "tests/e2e/test_cli_",
    "tests/e2e/",
    "tests/simulation/test_simulation.py",
    # These wait for most of their time.
    "tests/integration/worker/test_worker_limits.py",
    "tests/integration/worker/test_oauth.py",
)
# Keep the tests of a file together: they may share a service.
BY_FILE: Final = "tests/e2e/"
# Keep the tests of each group together: they share what takes long to make.
TOGETHER: Final = (
    ("tests/architecture/",),  # the syntax trees of all files of the project
    ("tests/e2e/console/", "tests/e2e/test_cli_"),  # one browser, one running `angelia up`
    ("tests/contract/kafka/test_leaders.py", "tests/contract/kafka/test_racks.py"),  # two brokers
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the first process compile the tests, and the others wait and read the compiled files.

    Otherwise each process would compile all tests of a new clone. To compile them takes three times
    the CPU time of reading them.
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


@pytest.hookimpl(trylast=True)  # after tests that are not selected were removed
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests, in each process in the same order.

    A process without others changes nothing.
    """
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    places = {id_: place for place, id_ in enumerate(dealt([i.nodeid for i in items], processes))}
    items.sort(key=lambda item: places[item.nodeid])


def dealt(ids: Sequence[str], processes: int) -> list[str]:
    """Return all test ids in an order in which each process begins with long tests.

    pytest-xdist cuts the list into as many equal parts as there are `processes`.
    """
    if processes == 1:
        return list(ids)
    heads = _heads(ids, processes)
    taken = {id_ for head in heads for id_ in head}
    # Mix the modules, so that tests that wait run beside tests that compute.
    mixed = sorted([id_ for id_ in ids if id_ not in taken], key=_place_of_module)
    rest, order = iter(mixed), list[str]()
    for number, head in enumerate(heads):
        size = (len(ids) - len(order)) // (processes - number)
        order += [*head, *islice(rest, max(0, size - len(head)))]
    return [*order, *rest]


def _heads(ids: Iterable[str], processes: int) -> list[list[str]]:
    """Return the tests with which each process begins.

    The first process begins with the tests that need Spark, and the others with the other long
    tests.
    """
    ids = list(ids)
    heads: list[list[str]] = [[] for _ in range(processes)]
    heads[0] += [id_ for id_ in ids if id_.startswith(SPARK)]
    long = dict.fromkeys(id_ for begin in LONG for id_ in ids if id_.startswith(begin))
    for number, (_, unit) in enumerate(groupby(long, _unit)):
        heads[1 + number % (processes - 1)] += unit
    return heads


def _place_of_module(id_: str) -> bytes:
    return sha256(_group_or_module(id_).encode()).digest()


def _unit(id_: str) -> str:
    return _group_or_module(id_) if id_.startswith(BY_FILE) else id_


def _group_or_module(id_: str) -> str:
    module = id_.partition("::")[0]
    return next((group[0] for group in TOGETHER if id_.startswith(group)), module)
