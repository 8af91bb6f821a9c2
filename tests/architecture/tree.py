"""The project's own files, read once for all rules."""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.domain.uncollected import Uncollected

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("angelia_client", "app", "workers", "spark", "migrations", "tests")

# Written by tools or by hand for this machine only; all of it is in .gitignore.
_NOT_OURS: Final = re.compile(
    r"\.(?!ci$|gitignore$|dockerignore$).+|__pycache__|build|dist|.+\.egg-info"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom
_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What rules look for most: the trees are gone through once for all of them.
_LOOKED_FOR: Final = (ast.Call, ast.Import, ast.ImportFrom, *_NAMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file: its path from the root of the project, its text and its syntax tree.

    `nodes` are the functions, classes, calls and imports of the tree, each with its scope: the
    dotted name of the function or class that it is in, or that it is.
    """

    path: str
    text: str
    tree: ast.Module
    nodes: tuple[tuple[str, ast.AST], ...]

    @property
    def package(self) -> str:
        """The top folder it is in."""
        return self.path.partition("/")[0]

    @property
    def is_test(self) -> bool:
        """Whether pytest collects it."""
        return Path(self.path).name.startswith("test_")

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Each function with its dotted name inside the module, nested ones included."""
        return ((name, node) for name, node in self.nodes if isinstance(node, Function))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Each class, nested ones included."""
        return (node for _, node in self.nodes if isinstance(node, ast.ClassDef))

    def imports(self) -> Iterator[Import]:
        """Each statement that imports something."""
        return (node for _, node in self.nodes if isinstance(node, Import))

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Each call with the dotted name of the function or class it is made in."""
        return ((name, node) for name, node in self.nodes if isinstance(node, ast.Call))


def parsed(path: str, text: str) -> Module:
    """The module of that text."""
    tree, nodes = ast.parse(text), list[tuple[str, ast.AST]]()
    _look_through(tree, "", found=nodes)
    return Module(path=path, text=text, tree=tree, nodes=tuple(nodes))


def modules(*packages: str) -> tuple[Module, ...]:
    """Every Python file of these top folders; of all of them when none is named."""
    return tuple(module for package in packages or CODE for module in _modules_of(package))


@cache
def _modules_of(package: str) -> tuple[Module, ...]:
    paths = sorted((ROOT / package).rglob("*.py"))
    with Uncollected():
        found = tuple(parsed(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths)
    # They stay, and are many: the collector need not go through them with each later test.
    gc.freeze()
    return found


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file of the project that is, or would be, in version control."""
    for path in sorted(folder.iterdir()):
        if _NOT_OURS.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def _look_through(node: ast.AST, scope: str, *, found: list[tuple[str, ast.AST]]) -> None:
    """Add what rules look for below; a function's or class's own scope includes its name."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, _NAMED):
            inner = f"{scope}.{child.name}".lstrip(".")
        if isinstance(child, _LOOKED_FOR):
            found.append((inner, child))
        _look_through(child, inner, found=found)
