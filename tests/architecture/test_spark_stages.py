"""What leaves Spark's engine: rows for the driver, stages in Python, and results kept in memory."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.architecture.tree import Module, modules

# Functions that bring rows to the driver, and why there are few of them.
COLLECTED: Final = {
    "spark/jobs/archive.py::_archived": "one row for each day and partition",
    "spark/jobs/archive.py::_last_runs": "one row for each partition",
    "spark/jobs/passing.py::near_failures": "one row for each of TOPICS_MAX topics",
    "spark/jobs/results.py::kept": "sums",
    "spark/jobs/retransmission.py::_foreseen": "sums, and SAMPLES_MAX examples",
    "spark/jobs/simulation.py::_counts": "sums",
    "spark/jobs/simulation.py::_queue": "the largest backlog",
    "spark/jobs/simulation.py::_samples": "SAMPLES_MAX examples of each kind",
}
# Functions whose rows go through Python on executors, and why.
IN_PYTHON: Final = {
    "spark/jobs/offline_retransmission.py::_published": "publishes to the log",
    "spark/jobs/staging.py::stage": "looks up in PostgreSQL which records are chosen",
    "spark/sinks.py::spread_to_database": "writes to PostgreSQL",
    "spark/transforms/ledger.py::counted": "counts with sorted arrays, for many subscriptions",
    "spark/transforms/ledger.py::passed_discards": "compares with ranges of each subscription",
    "spark/transforms/retransmission.py::chosen": "filters as deliveries do",
    "spark/transforms/retransmission.py::runs": "joins consecutive rows",
    "spark/transforms/simulation.py::arrivals": "filters as deliveries do",
}
# Functions that keep a frame in memory. A comment before each says why.
KEPT: Final = frozenset(
    {
        "spark/jobs/simulation.py::run",
        "spark/jobs/undelivered_analytics.py::run",
        "spark/jobs/undelivered_analytics.py::_clusters",
    }
)

_COLLECTING: Final = frozenset(
    {"collect", "first", "head", "tail", "toArrow", "toLocalIterator", "toPandas"}
)
_PYTHON: Final = frozenset(
    {
        "applyInArrow",
        "applyInPandas",
        "foreach",
        "foreachPartition",
        "mapInArrow",
        "mapInPandas",
        "mapPartitions",
        "pandas_udf",
        "udf",
        "udtf",
    }
)
_KEEPING: Final = frozenset({"cache", "checkpoint", "localCheckpoint", "persist"})


def uses(names: frozenset[str]) -> Iterator[tuple[str, Module, int]]:
    """Yield each function that calls a method of these names, its module, and the line."""
    for module in modules("spark"):
        for function, call in module.calls():
            is_method = isinstance(call.func, ast.Attribute) and call.func.attr in names
            if is_method and not ast.unparse(call).startswith("gc."):
                yield f"{module.path}::{function}", module, call.lineno


def test_few_rows_come_to_the_driver() -> None:
    assert {name for name, *_ in uses(_COLLECTING)} == COLLECTED.keys()


def test_rows_go_through_python_where_nothing_else_can_decide() -> None:
    assert {name for name, *_ in uses(_PYTHON)} == IN_PYTHON.keys()


def test_what_is_kept_in_memory_has_its_reason_beside_it() -> None:
    found = list(uses(_KEEPING))
    assert {name for name, *_ in found} == KEPT
    for _, module, line in found:
        before = module.text.splitlines()[line - 3 : line - 1]
        assert any(each.strip().startswith("#") for each in before), f"{module.path}:{line}"
