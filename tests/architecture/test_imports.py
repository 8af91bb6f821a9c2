"""Who may import whom: the contracts of pyproject.toml, and what they cannot say."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, Module, modules


def test_the_import_contracts_are_kept() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run(
        [lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_domain_rests_on_the_standard_library_alone() -> None:
    outsiders = [
        f"{module.path}: {name}"
        for module in modules("app")
        if module.path.startswith("app/domain/")
        for name in _imported(module)
        if not name.startswith("app.domain") and name.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not outsiders


def test_no_import_is_relative() -> None:
    relative = [
        module.path
        for module in modules()
        for node in module.imports()
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_what_ships_knows_no_tests() -> None:
    knowing = [
        module.path
        for module in modules("app", "workers", "spark", "migrations")
        if any(name.split(".")[0] == "tests" for name in _imported(module))
    ]
    assert not knowing


def _imported(module: Module) -> Iterator[str]:
    for node in module.imports():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield node.module or ""
