"""A server of S3 for tests, on this machine.

The server is that of the library moto. It has buckets and objects, and asks for no password. It is
a separate process, which ends with the process that started it. It has a separate Python
environment, because Amazon's client needs other packages than PySpark. `python -m tests.servers.s3
install` makes that environment once, under `build/`. Without it the tests fail, and name that
command: they are not skipped.
"""

import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4
from xml.etree import ElementTree as ET

import httpx

from tests.servers.jars import MissingError

CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "s3"
INSTALL: Final = "python -m tests.servers.s3 install"

_PYTHON: Final = CACHE / "bin" / "python"
_LOCK: Final = Path(__file__).with_name("s3.lock")
_PROCESS: Final = Path(__file__).with_name("s3_process.py")
_KEY: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}Key"


@dataclass(frozen=True, slots=True)
class S3:
    """A server of S3 at a URL."""

    url: str

    def a_bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = f"bucket-{uuid4().hex[:12]}"
        httpx.put(f"{self.url}/{name}").raise_for_status()
        return name

    def keys(self, bucket: str) -> Sequence[str]:
        """Return the keys of all objects in the bucket (at most 1,000)."""
        listed = httpx.get(f"{self.url}/{bucket}", params={"list-type": "2"}).raise_for_status()
        return [each.text or "" for each in ET.fromstring(listed.text).iter(_KEY)]  # noqa: S314 - of our own server


@contextmanager
def running() -> Iterator[S3]:
    """Run a server inside the block, and yield it."""
    if not (CACHE / "complete").exists():
        raise MissingError(f"The S3 of the tests is not installed; run: {INSTALL}")
    process = subprocess.Popen(
        (_PYTHON, _PROCESS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("It was to have pipes")
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"The S3 of the tests does not start: run {_PYTHON} {_PROCESS}")
        yield S3(f"http://127.0.0.1:{port}")
        # Close the process's standard input: the process then ends.
        process.stdin.close()


def install() -> None:
    """Make the server's Python environment, unless it exists."""
    if (CACHE / "complete").exists():
        return
    venv.create(CACHE, with_pip=True, clear=True)
    pip = (_PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    subprocess.run([*pip, "--require-hashes", "--no-deps", "--requirement", _LOCK], check=True)
    # Write this file last, so that an interrupted installation is repeated.
    (CACHE / "complete").touch()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    install()
