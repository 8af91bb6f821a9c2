"""Helm, for what the chart renders: no cluster is needed for it.

`python -m tests.servers.helm install` builds it once (Go), and keeps it under `build/`. Nothing is
skipped when it is missing: it fails with that line.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.servers.kafka import MissingError

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "angelia"
INSTALL: Final = "python -m tests.servers.helm install"

_MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_FOLDER: Final = ROOT / "build" / "helm-3.18.6"


def install() -> Path:
    """Make sure that Helm is there, and return it; MissingError with the line to run."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        helm = _FOLDER / "helm"
        if not helm.exists():
            go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
            if go is None:
                raise MissingError(f"The tests of the chart need Go (https://go.dev/dl): {INSTALL}")
            subprocess.run(
                [go, "install", _MODULE], env=os.environ | {"GOBIN": str(_FOLDER)}, check=True
            )
        return helm


def run(*arguments: str | Path) -> str:
    """What a command of Helm writes; CalledProcessError with it where it fails."""
    return subprocess.run(
        [install(), *arguments], capture_output=True, text=True, check=True
    ).stdout


def rendered(*arguments: str | Path, kubernetes: str) -> Iterator[dict[str, Any]]:
    """The objects that the chart makes with these arguments, for that version of Kubernetes."""
    made = run("template", "shop", CHART, "--kube-version", kubernetes, *arguments)
    return (each for each in yaml.safe_load_all(made) if each)


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    try:
        install()
    except MissingError as error:
        sys.exit(str(error))
