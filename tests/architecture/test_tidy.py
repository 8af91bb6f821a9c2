"""The house rules, held to by all code of the project, and seen to catch what they are for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from statistics import median
from typing import Final

import pytest

from tests.architecture import rules
from tests.architecture.rules import Finding
from tests.architecture.tree import Module, modules, parsed

FUNCTION_LINES_MEDIAN_MAX: Final = 10
FOLDER_MODULES_MAX: Final = 35

# Every exception to a rule, by the place as the rule reports it, with its reason.
ALLOWED: Final[Mapping[str, Mapping[str, str]]] = {
    "banned_calls": {
        "tests/benchmarks/bench_console.py::spent_in": "measures what pages cost in a time",
        "tests/benchmarks/receivers.py::_await_port": (
            "a server process that has only its port to say that it is ready"
        ),
        "tests/benchmarks/pace.py::until": "a measurement at a fixed rate waits for time itself",
        "tests/contract/logs.py::eventually": "a log tells no one of what is looked for there",
        "tests/e2e/service.py::eventually": "asks other processes, which have no event of ours",
        "tests/fakes/hostile.py::drips.act": "a subscriber that is slow on purpose",
        "tests/servers/kafka.py::KafkaBroker.wait_until_it_answers": (
            "a broker has no other way to say that it is ready; bounded by a deadline"
        ),
    },
    "environment_reads": {
        "app/cli/environment.py": (
            "to read two settings by Settings takes every command a quarter of a second; a test"
            " holds both to the same answers"
        ),
        "app/native.py": "decides what is imported, before anything can read settings",
    },
    "skipped_tests": {
        (
            "tests/integration/cli/test_child.py::"
            "test_a_child_stops_when_its_supervisor_is_killed_outright"
        ): ("only Linux tells children of their parent's death"),
    },
    "many_positional": {
        "app/config.py::Settings.settings_customise_sources": "pydantic's own signature",
        "app/domain/message.py::Record.__init__": "built for every message read: keywords cost",
        "workers/transport/tls.py::TlsContext.wrap_bio": "ssl's own signature",
    },
}


Rule = Callable[[Module], Iterator[Finding]]


@cache
def found_by(rule: Rule) -> tuple[Finding, ...]:
    """All that the rule finds in the project."""
    return tuple(finding for module in modules() for finding in rule(module))


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Rule) -> None:
    allowed = ALLOWED.get(rule.__name__, {})
    broken = [str(finding) for finding in found_by(rule) if finding.where not in allowed]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_no_exception_outlives_its_need(rule: Rule) -> None:
    needed = {finding.where for finding in found_by(rule)}
    assert set(ALLOWED.get(rule.__name__, {})) <= needed


def test_exceptions_are_to_rules_that_exist() -> None:
    assert set(ALLOWED) <= {rule.__name__ for rule in rules.RULES}


def test_most_functions_are_short() -> None:
    lengths = [
        rules.function_lines(function)
        for module in modules("app", "workers", "spark")
        for _, function in module.functions()
    ]
    assert median(lengths) <= FUNCTION_LINES_MEDIAN_MAX


OFFENCES: Final = (
    (rules.long_functions, "app/a.py", "def f() -> None:\n" + "    x = 1\n" * 70),
    (rules.long_modules, "app/a.py", "x = 1\n" * 501),
    (rules.many_positional, "app/a.py", "def f(a, b, c, d): ..."),
    (rules.many_positional, "app/a.py", "class A:\n    def f(self, a, b, c, d): ..."),
    (rules.mock_imports, "tests/a.py", "from unittest.mock import patch"),
    (rules.mock_imports, "tests/a.py", "import unittest.mock"),
    (rules.mock_imports, "tests/a.py", "from unittest import mock"),
    (rules.banned_calls, "tests/a.py", "import time\ntime.sleep(1)"),
    (rules.banned_calls, "tests/a.py", "from asyncio import sleep\nasync def f(): await sleep(1)"),
    (rules.banned_calls, "tests/a.py", "def test_f(monkeypatch): monkeypatch.setattr('a', 1)"),
    (rules.banned_calls, "app/a.py", "import asyncio\nasyncio.create_task(f())"),
    (
        rules.banned_calls,
        "workers/a.py",
        "import asyncio\nasyncio.get_running_loop().create_task(f())",
    ),
    (rules.banned_calls, "workers/a.py", "def f(self): self._loop.create_task(g())"),
    (rules.banned_calls, "app/a.py", "print('a')"),
    (rules.banned_calls, "workers/a.py", "import os\nos.getenv('A')"),
    (rules.banned_calls, "tests/a.py", "import pytest\npytest.skip('a')"),
    (rules.naive_clock, "app/a.py", "from datetime import datetime\ndatetime.now()"),
    (rules.environment_reads, "app/a.py", "import os\na = os.environ['A']"),
    (rules.skipped_tests, "tests/a.py", "@pytest.mark.skipif(True)\ndef test_a(): ..."),
    (rules.unexplained_suppressions, "app/a.py", "x = 1  # no" + "qa: E501"),
    (rules.unexplained_suppressions, "app/a.py", "x = 1  # no" + "qa"),
    (rules.unexplained_suppressions, "app/a.py", "x = 1  # type: ig" + "nore[misc]"),
    (rules.vague_names, "app/utils.py", "x = 1"),
    (rules.vague_names, "app/a.py", "class TaskManager: ..."),
    (
        rules.log_in_transactions,
        "app/services/a.py",
        "async def f(self):\n    async with self.db.transaction(): await self._log.ping()",
    ),
)

DECENCIES: Final = (
    (
        rules.log_in_transactions,
        "app/services/a.py",
        "async def f(self):\n    async with self.db.transaction(): ...\n    await self._log.ping()",
    ),
    (rules.many_positional, "app/a.py", "def f(a, b, c, *, d, e): ..."),
    (rules.many_positional, "tests/a.py", "def test_f(a, b, c, d): ..."),
    (rules.banned_calls, "tests/a.py", "import asyncio\nasync def f(): await asyncio.sleep(0)"),
    (rules.banned_calls, "app/a.py", "async def f(group): group.create_task(g())"),
    (rules.banned_calls, "app/cli/a.py", "print('a')"),
    (rules.naive_clock, "app/a.py", "from datetime import UTC, datetime\ndatetime.now(UTC)"),
    (rules.environment_reads, "app/config.py", "import os\na = os.environ['A']"),
    (rules.unexplained_suppressions, "app/a.py", "x = 1  # no" + "qa: E501 - a table reads so"),
    (rules.unexplained_suppressions, "app/a.py", "x = 1  # type: ig" + "nore[misc]  # no stubs"),
)


@pytest.mark.parametrize(("rule", "path", "text"), OFFENCES)
def test_a_rule_catches_what_it_is_for(rule: Rule, path: str, text: str) -> None:
    assert list(rule(parsed(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), DECENCIES)
def test_a_rule_lets_the_rest_be(rule: Rule, path: str, text: str) -> None:
    assert not list(rule(parsed(path, text)))


def test_folders_of_product_code_are_narrow() -> None:
    wide = wide_folders([module.path for module in modules() if module.package != "tests"])
    assert not wide, f"more than {FOLDER_MODULES_MAX} modules: give a part of them a folder"


def test_a_wide_folder_is_found() -> None:
    paths = [f"app/a/{number}.py" for number in range(FOLDER_MODULES_MAX)]
    assert wide_folders([*paths, "app/a/__init__.py", "app/b/a.py"]) == {}
    assert wide_folders([*paths, "app/a/a.py"]) == {"app/a": FOLDER_MODULES_MAX + 1}


def wide_folders(paths: Iterable[str]) -> dict[str, int]:
    """Folders with more modules than a reader takes in at once, `__init__.py` apart."""
    counts = Counter(path.rpartition("/")[0] for path in paths if not path.endswith("/__init__.py"))
    return {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX}
