"""Amazon's signer of tokens, for tests: the real package, in a process with credentials of a test.

It is beside our own packages and before them, as what Amazon's clients need is older than what we
lock. `python -m tests.servers.msk install` gets it once, and keeps it under `build/`. Nothing is
skipped when it is missing: it fails with that line.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tests.servers.kafka import MissingError

INSTALL: Final = "python -m tests.servers.msk install"

_ROOT: Final = Path(__file__).resolve().parents[2]
_CACHE: Final = _ROOT / "build" / "msk"
_LOCK: Final = Path(__file__).with_name("msk.lock")


def signed(region: str, credentials: Mapping[str, str]) -> Mapping[str, Any]:
    """What a process with these variables gets: `token` and `lifetime_s`, or the `reason`."""
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
    """Get it, unless it is there."""
    if (_CACHE / "complete").exists():
        return
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    chosen = ("--require-hashes", "--no-deps", "--upgrade", "--requirement", _LOCK)
    subprocess.run([*pip, *chosen, "--target", _CACHE], check=True)
    # Written last, so that what broke is done again.
    (_CACHE / "complete").touch()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    install()
