"""Atheris, the coverage-guided fuzzer, in an environment of its own, as nothing else needs it.

`python -m tests.fuzz install` gets it once, and keeps it under `build/`. Nothing is skipped when it
is missing: it fails with that line.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.architecture.tree import ROOT
from tests.servers.jars import MissingError

INSTALL: Final = "python -m tests.fuzz install"
# A finding, too: one input takes so long, or so much memory.
INPUT_TIMEOUT_S: Final = 20
MEMORY_MB: Final = 2_000
INPUT_BYTES_MAX: Final = 4_096

_PLACE: Final = ROOT / "build" / "atheris"
_LOCK: Final = Path(__file__).with_name("atheris.lock")


def install() -> None:
    """Get it, unless it is there."""
    if (_PLACE / "complete").exists():
        return
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    chosen = ("--require-hashes", "--no-deps", "--upgrade", "--requirement", str(_LOCK))
    subprocess.run([*pip, *chosen, "--target", str(_PLACE)], check=True)
    # Written last, so that what broke is done again.
    (_PLACE / "complete").touch()


def fuzz(name: str, folder: Path, *, seconds: int) -> int:
    """Fuzz a target for so long; return the exit code, which is 0 if nothing was found."""
    options = (
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={folder}/found-",
        "-print_final_stats=1",
        "-verbosity=1",
    )
    return _run(name, *options, str(folder / "corpus"))


def _run(name: str, *options: str) -> int:
    if not (_PLACE / "complete").exists():
        raise MissingError(f"atheris is not installed; run: {INSTALL}")
    ours = os.environ | {"PYTHONPATH": str(_PLACE), "ANGELIA_INTERPRETED": "1"}
    command = (sys.executable, "-m", "tests.fuzz.atheris_process", name, *options)
    return subprocess.run(command, cwd=ROOT, env=ours, check=False).returncode
