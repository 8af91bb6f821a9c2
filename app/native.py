"""The compiled hot path: it runs where `make native` made it from these very sources.

The sources are the same, interpreted or compiled (`[tool.angelia]` in pyproject.toml lists the
modules). After any edit, the sources run until `make native` runs again. `python -X interpreted`
runs them in any case, for debuggers and comparisons. In a compiled wheel, compiled modules lie
beside their sources, and Python prefers them.
"""

import hashlib
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# The folder of the compiled modules, which only this version of Python can load.
FOLDER: Final = ROOT / "build" / "native" / str(sys.implementation.cache_tag)
_PACKAGES: Final = ("app", "workers")
# The module that shows whether the others are compiled: all of them are, or none.
_SAMPLE: Final = "workers.transport.answer"


class NativeFinder:
    """Finds the compiled modules in a folder, before their sources are found."""

    def __init__(self, folder: Path) -> None:
        suffix = EXTENSION_SUFFIXES[0]
        self._found = {
            ".".join(path.relative_to(folder).parts).removesuffix(suffix): path
            for path in folder.rglob(f"*{suffix}")
        }

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return where the module is; None if it is not compiled."""
        found = self._found.get(fullname)
        return None if found is None else spec_from_file_location(fullname, found)


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of all sources that the compiled modules may have constants or types of."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_current(folder: Path = FOLDER, root: Path = ROOT) -> bool:
    """Whether `folder` has modules that were compiled from the sources in `root` as they are."""
    stamp = stamp_of(folder)
    return stamp.is_file() and stamp.read_text() == sources_digest(root)


def stamp_of(folder: Path = FOLDER) -> Path:
    """Return the file that has the digest of what was compiled."""
    return folder / "sources.sha256"


def install() -> None:
    """Have the compiled modules imported from now on, if there are any from these sources."""
    if "interpreted" not in sys._xoptions and is_current():  # noqa: SLF001 - its documented name
        sys.meta_path.insert(0, NativeFinder(FOLDER))


def is_compiled() -> bool:
    """Whether the compiled modules are the ones that this process imports."""
    spec = find_spec(_SAMPLE)
    return spec is not None and str(spec.origin).endswith(EXTENSION_SUFFIXES[0])


def problem() -> str:
    """Return why compiled modules that are there do not run; empty if there is nothing to say."""
    if is_compiled() or not stamp_of().is_file() or is_current():
        return ""
    return "compiled from other sources, so the sources run: `make native` compiles them again"
