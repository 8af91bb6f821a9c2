"""Amazon's own signer of tokens for tests, run in a process with the credentials of a test.

The signer's packages are in a folder of their own, which the process searches first: they need
older packages than Angelia's lock file has. `python -m tests.servers.msk install` installs them
once, and stores them under `build/`. Without them the tests fail, and name that command: they are
not skipped.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tests.servers.jars import MissingError

INSTALL: Final = "python -m tests.servers.msk install"

_ROOT: Final = Path(__file__).resolve().parents[2]
_CACHE: Final = _ROOT / "build" / "msk"
_LOCK: Final = Path(__file__).with_name("msk.lock")


def signed(region: str, credentials: Mapping[str, str]) -> Mapping[str, Any]:
    """Sign a token in a process that has `credentials` as environment variables; return the result.

    The result has `token` and `lifetime_s`, or after a failure the `reason`.
    """
    if not (_CACHE / "complete").exists():
        raise MissingError(f"Amazon's signer is not installed; run: {INSTALL}")
    ours = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    nowhere = {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "PYTHONPATH": str(_CACHE),
    }
    ran = subprocess.run(
        (sys.executable, "-m", "tests.servers.msk_process", region),
        cwd=_ROOT,
        env=ours | nowhere | dict(credentials),
        stdout=subprocess.PIPE,
        check=True,
    )
    found: Mapping[str, Any] = orjson.loads(ran.stdout)
    return found


def install() -> None:
    """Install the signer's packages, unless they are installed."""
    if (_CACHE / "complete").exists():
        return
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    chosen = ("--require-hashes", "--no-deps", "--upgrade", "--requirement", _LOCK)
    subprocess.run([*pip, *chosen, "--target", _CACHE], check=True)
    # Write this file last, so that an interrupted installation is repeated.
    (_CACHE / "complete").touch()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    install()
