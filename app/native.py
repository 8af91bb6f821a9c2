"""The compiled hot path: it runs where `make native` made it from these very sources.

The sources are the same, interpreted or compiled (`[tool.angelia]` in pyproject.toml lists the
modules). After any edit, the sources run until `make native` runs again. ANGELIA_INTERPRETED=1 runs
them in any case, in this process and its children, for tests, debuggers and comparisons.
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
# The end of the names of compiled modules. It says which version of Python, processor and system
# can load them.
SUFFIX: Final = EXTENSION_SUFFIXES[0]
# The folder of the compiled modules: `…/cpython-311-x86_64-linux-gnu`, for example.
FOLDER: Final = ROOT / "build" / "native" / SUFFIX.split(".")[1]
# The library that all compiled modules share.
_LIBRARY: Final = f"app/compiled__mypyc{SUFFIX}"
_PACKAGES: Final = ("app", "workers")
# The files that say what is compiled, how, and by which mypyc. A wheel is without them.
_BUILD_FILES: Final = ("pyproject.toml", "requirements-dev.lock", "setup.py")
# The module that shows whether the others are compiled: all of them are, or none.
_SAMPLE: Final = "workers.transport.answer"


class NativeFinder:
    """Finds the compiled modules in a folder, before their sources are found."""

    def __init__(self, folder: Path) -> None:
        self._found = {
            ".".join(path.relative_to(folder).parts).removesuffix(SUFFIX): path
            for path in folder.rglob(f"*{SUFFIX}")
        }

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return where the module is; None if it is not compiled."""
        found = self._found.get(fullname)
        return None if found is None else spec_from_file_location(fullname, found)


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of what is compiled, and of all that it may have constants or types of."""
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
    """Whether `folder` has modules that were compiled from the sources in `root` as they are."""
    stamp = stamp_of(folder)
    if not stamp.is_file() or not (folder / _LIBRARY).is_file():
        return False
    return stamp.read_text() == sources_digest(root)


def stamp_of(folder: Path = FOLDER) -> Path:
    """Return the file that has the digest of what was compiled."""
    return folder / "sources.sha256"


def install(environment: Mapping[str, str] = os.environ) -> None:
    """Have the compiled modules imported from now on, if there are any from these sources."""
    if environment.get("ANGELIA_INTERPRETED") != "1" and is_current():
        sys.meta_path.insert(0, NativeFinder(FOLDER))


def is_compiled() -> bool:
    """Whether the compiled modules are the ones that this process imports."""
    spec = find_spec(_SAMPLE)
    return spec is not None and str(spec.origin).endswith(SUFFIX)


def problem() -> str:
    """Return why compiled modules that are there do not run; empty if there is nothing to say."""
    if is_compiled() or not stamp_of().is_file() or is_current():
        return ""
    return "compiled from other sources, so the sources run: `make native` compiles them again"
