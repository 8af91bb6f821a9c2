"""The version of Angelia before this one, with its code from git, to run beside this version.

`tests/e2e/previous_version` has the commit of the version before. `python -m tests.servers.previous
install` puts its code under `build/` once. If the code needs other packages than this version, it
gets a Python environment of its own. In a tree without `.git`, this version is used in place of the
version before.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.servers.jars import MissingError
from tests.servers.warm import ROOT, THIS, Version, WarmParent, warm

COMMIT: Final = (ROOT / "tests" / "e2e" / "previous_version").read_text().strip()
# The modules that tests run in both versions. Which other modules the version before has is
# unknown.
MODULES: Final = ("app.main", "workers.process")
_PACKAGES: Final = "requirements.lock"


def install(checkout: Path = ROOT) -> Version:
    """Make sure that the code of the version before is there, and return that version.

    Raises:
        MissingError: The clone has too little history; the message has the line that fetches more.
    """
    if not (checkout / ".git").exists():
        return THIS
    code = ROOT / "build" / f"previous-{COMMIT[:12]}"
    _require_commit(checkout)
    code.mkdir(parents=True, exist_ok=True)
    with (code / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _unpack(checkout, code)
        return Version(code, _python_of(code))


def _require_commit(checkout: Path) -> None:
    if _git(checkout, "cat-file", "-e", f"{COMMIT}^{{commit}}").returncode:
        shallow = _git(checkout, "rev-parse", "--is-shallow-repository").stdout == "true\n"
        fetch = "git fetch --unshallow" if shallow else f"git fetch origin {COMMIT}"
        raise MissingError(f"The tests of upgrades need the commit {COMMIT[:12]}: {fetch}")


def _git(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("git") is None:
        raise MissingError("The tests of upgrades read the history: apt-get install -y git")
    # Accept any owner of the folder: root may run the tests of somebody else's clone.
    command = ["git", "-c", "safe.directory=*", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _unpack(checkout: Path, code: Path) -> None:
    if (code / "complete").exists():
        return
    packed = code / "code.tar"
    _git(checkout, "archive", f"--output={packed}", COMMIT).check_returncode()
    subprocess.run(["tar", "-x", "-f", packed, "-C", code], check=True)  # noqa: S607 - tar from PATH
    packed.unlink()
    (code / "complete").touch()


def _python_of(code: Path) -> str:
    """Return the Python that runs the code: this one, or that of a separate environment.

    A separate environment is made if the code needs other packages than this version.
    """
    if (code / _PACKAGES).read_bytes() == (ROOT / _PACKAGES).read_bytes():
        return sys.executable
    environment = code / ".venv"
    python = str(environment / "bin" / "python")
    if not (environment / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        locked = ["--require-hashes", "--no-deps", "--requirement", str(code / _PACKAGES)]
        subprocess.run([*pip, *locked], check=True)
        subprocess.run([*pip, "--no-deps", "--editable", str(code)], check=True)
        (environment / "complete").touch()
    return python


@pytest.fixture(scope="session")
def version_before() -> WarmParent:
    """Return the process from which processes of the version before are forked."""
    return warm(MODULES, install())


if __name__ == "__main__":
    try:
        print(install().root)  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
