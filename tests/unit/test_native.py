"""Compiled modules run only if they were made from the sources that are there."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Final

import pytest

from app import native
from app.native import SUFFIX, NativeFinder, is_current, sources_digest, stamp_of
from tests.architecture.tree import ROOT

MODULE: Final = "workers.transport.answer"
SOURCE: Final = "workers/transport/answer.py"
HOT_PATH: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["angelia"]["native"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one module, which seems to be compiled: what is there is no library."""
    for name in ("app/__init__.py", "app/native.py", "workers/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / SOURCE).parent.mkdir()
    (tmp_path / "workers/transport/__init__.py").touch()
    (tmp_path / SOURCE).write_text("print('interpreted')")
    compiled = _folder(tmp_path) / Path(SOURCE).with_suffix(SUFFIX)
    for path in (compiled, _library(tmp_path)):
        path.parent.mkdir(parents=True)
        path.touch()
    stamp_of(_folder(tmp_path)).write_text(sources_digest(tmp_path))
    return tmp_path


def _folder(root: Path) -> Path:
    return root / native.FOLDER.relative_to(native.ROOT)


def _library(root: Path) -> Path:
    return _folder(root) / f"app/compiled__mypyc{SUFFIX}"


def _imported(
    root: Path, code: str = f"import {MODULE}", *, interpreted: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "ANGELIA_INTERPRETED": interpreted},
        capture_output=True,
        text=True,
        check=False,
    )


def test_compiled_modules_are_imported_instead_of_their_sources(tree: Path) -> None:
    assert f"ImportError: {_folder(tree)}" in _imported(tree).stderr


def test_after_an_edit_the_sources_run(tree: Path) -> None:
    (tree / SOURCE).write_text("print('edited')")
    assert _imported(tree).stdout == "edited\n"


def test_it_is_said_that_sources_run_because_of_an_edit(tree: Path) -> None:
    told = "from app import native; print(native.is_compiled(), native.problem())"
    assert _imported(tree, told).stdout == "True \n"
    (tree / SOURCE).write_text("print('edited')")
    assert _imported(tree, told).stdout.startswith("False compiled from other sources")


def test_the_sources_run_where_python_is_told_to_interpret_them(tree: Path) -> None:
    assert _imported(tree, interpreted="1").stdout == "interpreted\n"
    assert _imported(tree, interpreted="0").stdout == ""


def test_children_are_told_to_interpret_too(tree: Path) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import {MODULE}'])"
    assert _imported(tree, child, interpreted="1").stdout == "interpreted\n"


def test_sources_run_where_a_build_was_not_completed(tree: Path) -> None:
    stamp_of(_folder(tree)).unlink()
    assert _imported(tree).stdout == "interpreted\n"


def test_sources_run_where_the_library_of_compiled_modules_is_missing(tree: Path) -> None:
    _library(tree).unlink()
    assert _imported(tree).stdout == "interpreted\n"


def test_the_folder_names_what_can_load_the_modules() -> None:
    assert SUFFIX in {f".{native.FOLDER.name}.so", f".{native.FOLDER.name}.pyd"}


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements-dev.lock", "setup.py"])
def test_compiled_modules_are_outdated_by_another_way_to_compile(tree: Path, name: str) -> None:
    (tree / name).write_text("another")
    assert not is_current(_folder(tree), tree)


def test_compiled_modules_are_outdated_by_a_source_that_is_not_compiled(tree: Path) -> None:
    assert is_current(_folder(tree), tree)
    (tree / "app/new.py").touch()
    assert not is_current(_folder(tree), tree)


def test_a_folder_has_the_modules_that_are_in_it_and_no_others(tree: Path) -> None:
    finder = NativeFinder(_folder(tree))
    spec = finder.find_spec(MODULE)
    assert spec is not None
    assert isinstance(spec.loader, ExtensionFileLoader)
    assert finder.find_spec("workers.transport") is None


def test_each_module_of_the_hot_path_is_there() -> None:
    paths = [ROOT / f"{name.replace('.', '/')}.py" for name in HOT_PATH]
    assert [path for path in paths if not path.is_file()] == []
    assert sorted(HOT_PATH) == HOT_PATH
