"""The project's own files, read once for all rules."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("angelia_client", "app", "workers", "spark", "migrations", "tests")

# Written by tools or by hand for this machine only; all of it is in .gitignore.
_NOT_OURS: Final = re.compile(
    r"\.(?!ci$|gitignore$|dockerignore$).+|__pycache__|build|dist|.+\.egg-info"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file: its path from the root of the project, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

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
        for name, node in _walk(self.tree, ""):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, node

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Each call with the dotted name of the function or class it is made in."""
        return ((name, node) for name, node in _walk(self.tree, "") if isinstance(node, ast.Call))


def parsed(path: str, text: str) -> Module:
    """The module of that text."""
    return Module(path=path, text=text, tree=ast.parse(text))


def modules(*packages: str) -> tuple[Module, ...]:
    """Every Python file of these top folders; of all of them when none is named."""
    return tuple(module for package in packages or CODE for module in _modules_of(package))


@cache
def _modules_of(package: str) -> tuple[Module, ...]:
    return tuple(
        parsed(path.relative_to(ROOT).as_posix(), path.read_text())
        for path in sorted((ROOT / package).rglob("*.py"))
    )


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file of the project that is, or would be, in version control."""
    for path in sorted(folder.iterdir()):
        if _NOT_OURS.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def _walk(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node below, with its scope; a function's or class's own scope includes its name."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}".lstrip(".")
        yield inner, child
        yield from _walk(child, inner)
