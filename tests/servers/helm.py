"""Helm, which renders the objects of the Helm chart. The tests of the chart need no cluster.

`python -m tests.servers.helm install` builds Helm once with Go, and stores it under `build/`.
Without Go these tests fail, and name that command: they are not skipped.
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

from tests.servers.jars import MissingError

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "angelia"
INSTALL: Final = "python -m tests.servers.helm install"

_MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_FOLDER: Final = ROOT / "build" / "helm-3.18.6"


def install() -> Path:
    """Make sure that Helm is built, and return its path.

    Raises:
        MissingError: Go is missing; the message has the line to run.
    """
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
    """Run a command of Helm, and return its output.

    Raises:
        CalledProcessError: The command failed; the error has the output.
    """
    return subprocess.run(
        [install(), *arguments], capture_output=True, text=True, check=True
    ).stdout


def rendered(*arguments: str | Path, kubernetes: str) -> Iterator[dict[str, Any]]:
    """Yield the Kubernetes objects that the chart renders with these arguments of Helm.

    `kubernetes` is the version of Kubernetes that the chart is rendered for.
    """
    made = run("template", "shop", CHART, "--kube-version", kubernetes, *arguments)
    return (each for each in yaml.safe_load_all(made) if each)


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    try:
        install()
    except MissingError as error:
        sys.exit(str(error))
