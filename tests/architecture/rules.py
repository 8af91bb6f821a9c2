"""The house rules that no linter knows, each a function from a module to what it finds there."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.architecture.tree import Function, Import, Module

FUNCTION_LINES_MAX: Final = 70
MODULE_LINES_MAX: Final = 500
POSITIONAL_MAX: Final = 3

_VAGUE: Final = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
_SUPPRESSION: Final = re.compile(
    r"#\s*(?:noqa|type:\s*ignore)(?P<codes>[:\[][^-#]*)?(?P<reason>.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place that breaks a rule: `where` is `path::name`, which an exception may name."""

    where: str
    line: int
    advice: str

    def __str__(self) -> str:
        return f"{self.where} (line {self.line}): {self.advice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """A call that is not made under these paths, and what is done instead."""

    calls: frozenset[str]
    under: tuple[str, ...]
    instead: str
    except_under: tuple[str, ...] = ()

    def holds_in(self, path: str) -> bool:
        """Whether the ban is in force in that file."""
        return path.startswith(self.under) and not path.startswith(self.except_under)

    def forbids(self, called: str) -> bool:
        """Whether `called`, a dotted name, is one of the calls."""
        return called in self.calls or called.endswith(tuple(f".{call}" for call in self.calls))


_EVERYWHERE: Final = ("angelia_client/", "app/", "workers/", "spark/", "migrations/", "tests/")
BANS: Final = (
    Ban(
        calls=frozenset({"time.sleep", "asyncio.sleep"}),
        under=("tests/",),
        instead="wait on an event, or on a condition with a deadline",
    ),
    Ban(
        calls=frozenset({"time.sleep"}),
        under=("app/", "workers/", "spark/"),
        instead="wait on an event with a timeout, so that a stop is not kept waiting",
    ),
    Ban(
        calls=frozenset({"monkeypatch.setattr", "mocker.patch"}),
        under=("tests/",),
        instead="substitute at a seam, with a fake of tests/fakes",
    ),
    Ban(
        calls=frozenset(
            {
                "asyncio.create_task",
                "asyncio.ensure_future",
                "get_event_loop.create_task",
                "get_running_loop.create_task",
                "loop.create_task",
                "_loop.create_task",
            }
        ),
        under=("app/", "workers/", "spark/"),
        instead="give the task an owner: TaskGroup.create_task",
    ),
    Ban(
        calls=frozenset({"datetime.utcnow", "datetime.utcfromtimestamp", "date.today"}),
        under=_EVERYWHERE,
        instead="datetime.now(UTC)",
    ),
    Ban(
        calls=frozenset({"print"}),
        under=("app/", "workers/", "spark/", "migrations/"),
        except_under=("app/cli/",),
        instead="log an event with fields",
    ),
    Ban(
        calls=frozenset({"os.getenv", "os.environ.get", "os.putenv"}),
        under=("app/", "workers/", "spark/", "migrations/"),
        except_under=("app/config.py",),
        instead="take it from Settings: app/config.py is the only reader of the environment",
    ),
    Ban(
        calls=frozenset({"pytest.skip", "pytest.importorskip"}),
        under=("tests/",),
        instead="fail with the line that installs what is missing",
    ),
)


def long_functions(module: Module) -> Iterator[Finding]:
    """Functions of more than 70 lines, signature and docstring included."""
    if module.path.startswith("migrations/versions/"):
        return  # a migration is a list of statements
    for name, function in module.functions():
        lines = function_lines(function)
        if lines > FUNCTION_LINES_MAX:
            yield _finding(module, function, f"{lines} lines: split it", name=name)


def long_modules(module: Module) -> Iterator[Finding]:
    """Modules of more than 500 lines."""
    lines = module.text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield _finding(module, module.tree, f"{lines} lines: split it where readers part")


def many_positional(module: Module) -> Iterator[Finding]:
    """Functions of ours that take more than three positional parameters.

    Not those that pytest calls: it passes fixtures by name.
    """
    for name, function in module.functions():
        count = len(_positional(function))
        if count > POSITIONAL_MAX and not _called_by_pytest(function):
            advice = f"{count} positional parameters: make them keyword-only, or a value"
            yield _finding(module, function, advice, name=name)


def mock_imports(module: Module) -> Iterator[Finding]:
    """Uses of unittest.mock and its like."""
    for node in module.imports():
        if any(name.split(".")[-1] in {"mock", "pytest_mock"} for name in _imported(node)):
            yield _finding(module, node, "substitute at a seam, with a fake of tests/fakes")


def banned_calls(module: Module) -> Iterator[Finding]:
    """Calls that have a better replacement."""
    bans = [ban for ban in BANS if ban.holds_in(module.path)]
    aliases = _aliases(module)
    for name, call in module.calls():
        called = _dotted(call.func, aliases=aliases)
        for ban in bans:
            if ban.forbids(called) and not _only_gives_way(call):
                yield _finding(module, call, f"{called}: {ban.instead}", name=name)


def naive_clock(module: Module) -> Iterator[Finding]:
    """`datetime.now()` without a time zone."""
    for name, call in module.calls():
        is_now = _dotted(call.func, aliases={}).endswith("datetime.now")
        if is_now and not call.args and not call.keywords:
            yield _finding(module, call, "datetime.now(UTC)", name=name)


def environment_reads(module: Module) -> Iterator[Finding]:
    """Uses of `os.environ` outside app/config.py."""
    if module.package == "tests" or module.path == "app/config.py":
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and _dotted(node, aliases={}) == "os.environ":
            yield _finding(module, node, "take it from Settings")


def skipped_tests(module: Module) -> Iterator[Finding]:
    """Tests marked to be skipped."""
    for name, function in module.functions():
        for decorator in function.decorator_list:
            marker = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _dotted(marker, aliases={}).startswith("pytest.mark.skip"):
                yield _finding(module, function, "a missing part fails the run", name=name)


def unexplained_suppressions(module: Module) -> Iterator[Finding]:
    """`noqa` and `type: ignore` without codes, or without a reason after them."""
    if not _SUPPRESSION.search(module.text):
        return  # only a comment can be one, and to find the comments takes longest
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type != tokenize.COMMENT or not (found := _SUPPRESSION.search(token.string)):
            continue
        if not found["codes"] or not found["reason"].strip("-# "):
            yield Finding(
                where=f"{module.path}::{token.line.strip()[:40]}",
                line=token.start[0],
                advice="say why: `noqa: CODE - why`, `type: ignore[code]  # why`",
            )


def vague_names(module: Module) -> Iterator[Finding]:
    """Modules and classes named for nothing in particular."""
    stem = module.path.rpartition("/")[2].removesuffix(".py")
    if stem in _VAGUE:
        yield _finding(module, module.tree, "name it for what it holds")
    for node in module.classes():
        if node.name.lower().endswith(("manager", "helper")):
            yield _finding(module, node, "name it for what it does", name=node.name)


def log_in_transactions(module: Module) -> Iterator[Finding]:
    """The message log in the block of a transaction, which others wait for (decision 0003)."""
    if not module.path.startswith("app/services/"):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.AsyncWith) and any(map(_is_transaction, node.items)):
            for found in (each for line in node.body for each in ast.walk(line)):
                if _dotted(found, aliases={}) in {"log", "self._log"}:
                    yield _finding(module, found, "ask the log between transactions: LogClaims")


def _is_transaction(item: ast.withitem) -> bool:
    return ast.unparse(item.context_expr).endswith(".transaction()")


RULES: Final[tuple[Callable[[Module], Iterator[Finding]], ...]] = (
    long_functions,
    long_modules,
    many_positional,
    mock_imports,
    banned_calls,
    naive_clock,
    environment_reads,
    skipped_tests,
    unexplained_suppressions,
    vague_names,
    log_in_transactions,
)


def function_lines(function: Function) -> int:
    """Lines from `def` to the end."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _finding(module: Module, node: ast.AST, advice: str, *, name: str = "") -> Finding:
    where = f"{module.path}::{name}" if name else module.path
    return Finding(where=where, line=getattr(node, "lineno", 1), advice=advice)


def _positional(function: Function) -> list[str]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _called_by_pytest(function: Function) -> bool:
    decorators = [
        _dotted(node.func if isinstance(node, ast.Call) else node, aliases={})
        for node in function.decorator_list
    ]
    return function.name.startswith("test_") or any("fixture" in name for name in decorators)


def _imported(node: Import) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]


def _aliases(module: Module) -> dict[str, str]:
    """What names imported with `from` stand for: `sleep` for `asyncio.sleep`."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in module.imports()
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _only_gives_way(call: ast.Call) -> bool:
    """`asyncio.sleep(0)` waits for no time: it lets other tasks run."""
    return len(call.args) == 1 and ast.unparse(call).endswith("sleep(0)")


def _dotted(node: ast.AST, *, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, aliases=aliases)}.{node.attr}"
    if isinstance(node, ast.Call):
        return _dotted(node.func, aliases=aliases)
    return "?"
