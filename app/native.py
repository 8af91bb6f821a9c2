"""Imports the modules of the hot path in compiled form, if `make native` compiled their sources.

A source is the same, interpreted or compiled (`[tool.angelia]` in pyproject.toml lists the
modules). After any edit, the sources are interpreted until `make native` runs again. With
ANGELIA_INTERPRETED=1, this process and its children always interpret them, for tests, debuggers and
comparisons.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# How the file names of compiled modules end. The ending names the version of Python, the processor
# and the system that can load the modules.
SUFFIX: Final = EXTENSION_SUFFIXES[0]
# The folder of the compiled modules: `…/cpython-311-x86_64-linux-gnu`, for example.
FOLDER: Final = ROOT / "build" / "native" / SUFFIX.split(".")[1]
# The library that all compiled modules share.
_LIBRARY: Final = f"app/compiled__mypyc{SUFFIX}"
_PACKAGES: Final = ("app", "workers")
# The files that say which modules are compiled, and how. An installed wheel does not contain these
# files.
_BUILD_FILES: Final = ("pyproject.toml", "requirements-dev.lock", "setup.py")
# One of the compiled modules. It shows whether all modules are compiled, because either all are
# compiled or none.
_SAMPLE: Final = "workers.transport.answer"


class NativeFinder:
    """Finds compiled modules in a folder. Python asks it before it looks for the sources."""

    def __init__(self, folder: Path) -> None:
        self._found = {
            ".".join(path.relative_to(folder).parts).removesuffix(SUFFIX): path
            for path in folder.rglob(f"*{SUFFIX}")
        }

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return where the compiled module is; None if the module is not compiled."""
        found = self._found.get(fullname)
        return None if found is None else spec_from_file_location(fullname, found)


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of all sources and build files on which compiled modules may depend."""
    digest = hashlib.sha256()
    for path in _sources(root):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for package in _PACKAGES:
        yield from sorted((root / package).rglob("*.py"))
    yield from filter(Path.is_file, (root / name for name in _BUILD_FILES))


def is_current(folder: Path = FOLDER, root: Path = ROOT) -> bool:
    """Whether the modules in `folder` were compiled from the current sources in `root`."""
    stamp = stamp_of(folder)
    if not stamp.is_file() or not (folder / _LIBRARY).is_file():
        return False
    return stamp.read_text() == sources_digest(root)


def stamp_of(folder: Path = FOLDER) -> Path:
    """Return the path of the file with the digest of the sources that were compiled."""
    return folder / "sources.sha256"


def install(environment: Mapping[str, str] = os.environ) -> None:
    """Let Python import the compiled modules from now on, if they fit the current sources."""
    if environment.get("ANGELIA_INTERPRETED") != "1" and is_current():
        sys.meta_path.insert(0, NativeFinder(FOLDER))


def is_compiled() -> bool:
    """Whether this process imports the compiled modules."""
    spec = find_spec(_SAMPLE)
    return spec is not None and str(spec.origin).endswith(SUFFIX)


def problem() -> str:
    """Return why compiled modules exist but are not used; empty if there is no such problem."""
    if is_compiled() or not stamp_of().is_file() or is_current():
        return ""
    return "compiled from other sources, so the sources run: `make native` compiles them again"
