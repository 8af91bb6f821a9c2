"""Builds the images of the Dockerfile, and runs their programs, without a container engine.

The tool buildah builds the images. The tool mmdebstrap makes a Debian with Python, which is used
instead of the base image `python:3.11-slim-bookworm`. So nothing is fetched from a registry of
images. `python -m tests.servers.images install`, run as root, installs both tools with apt-get. For
other users it prints the line to run.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.servers.jars import MissingError

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = ROOT / "build" / "images" / "base.tar"
BASE_NAME: Final = "docker.io/library/python:3.11-slim-bookworm"
INSTALL_PACKAGES: Final = (
    "apt-get update && apt-get install -y --no-install-recommends buildah mmdebstrap"
)
TARGETS: Final = {"service": "angelia", "spark": "angelia-spark"}

_DEBIAN: Final = "ca-certificates,python3,python3-venv,python3-pip,python-is-python3"
_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
_PIP_CACHE: Final = "/root/.cache/pip"

_LARGE: Final = ("pyspark", "pyarrow", "pandas", "numpy", "sqlalchemy", "cryptography")

# Start a program as a container runtime does: with a root folder that nobody can write to, names of
# hosts, a /tmp, volumes, and a user without privileges. The arguments of the script: $0 is the root
# folder; $1 is the user; then come the volumes until "--", and then the program.
_CONTAINER: Final = """
set -eu
root=$0 user=$1; shift
touch "$root/etc/hosts"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind /etc/hosts "$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
while [ "$1" != -- ]; do
  mkdir -p "$root$1"
  mount --bind "$2" "$root$1"
  shift 2
done
shift
exec setpriv --no-new-privs chroot --userspec="$user:$user" --groups= "$root" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A built image, whose root file system is mounted at `root`. `size` is in bytes."""

    root: Path
    size: int
    settings: Mapping[str, Any]
    # Folders of this machine, by their path in the container: a path in /tmp, or of a folder that
    # the image has.
    volumes: Mapping[str, Path] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """The user id under which containers of the image run."""
        return str(self.settings["User"])

    def parts(self) -> Mapping[str, int]:
        """Return the megabytes of the image's largest folders and packages, by path."""
        ours = ("opt/angelia", "usr/lib/jvm")
        packages = [f"{ours[0]}/lib/python3.11/site-packages/{name}" for name in _LARGE]
        return {each: _megabytes(self.root / each) for each in (*ours, *packages, "usr", "var")}

    @property
    def health_check(self) -> Sequence[str]:
        """The command of the image's health check."""
        command: list[str]
        kind, *command = self.settings["Healthcheck"]["Test"]
        assert kind == "CMD"
        return command

    def command(self, *arguments: str) -> list[str]:
        """Return the command of the image with these arguments, or with its default arguments."""
        return [*self.settings["Entrypoint"], *(arguments or self.settings["Cmd"])]

    def started(
        self, *program: str, environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program in a container of its own, which shares the network of this machine.

        Args:
            program: The program and its arguments.
            environment: Environment variables, besides those of the image.
            log: The file to which the program's output is appended.
        """
        own = [*self.settings["Env"], *(f"{name}={text}" for name, text in environment.items())]
        inside = ["env", "--chdir", self.settings["WorkingDir"], "-i", *own, *program]
        volumes = [str(each) for pair in self.volumes.items() for each in pair]
        with log.open("ab") as output:
            return subprocess.Popen(
                [
                    *("unshare", "--mount", "--propagation", "private", "sh", "-c", _CONTAINER),
                    *(str(self.root), self.user, *volumes, "--", *inside),
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


def install() -> None:
    """Make sure that buildah and mmdebstrap are installed.

    Raises:
        MissingError: A tool is missing, or the user is not root; the message has the line to run.
    """
    if os.geteuid():
        raise MissingError("Images are built and run by root: sudo make test-image")
    if not _present():
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    if not _present():
        raise MissingError(f"The tests of the images need: {INSTALL_PACKAGES}")


def _present() -> bool:
    return all(shutil.which(each) for each in ("buildah", "mmdebstrap"))


@contextmanager
def built(context: Path = ROOT) -> Iterator[Mapping[str, Image]]:
    """Build both images for the block, and yield them by the name of their build target.

    After the block, the images are removed.
    """
    install()
    with TemporaryDirectory(prefix="angelia-images-", dir="/var/tmp") as home:
        store = _Store(Path(home))
        try:
            store.import_base()
            yield {target: store.build(target, context) for target in TARGETS}
        finally:
            store.buildah("umount", "--all")
            store.buildah("rm", "--all")


@dataclass(frozen=True, slots=True)
class _Store:
    """A folder in which buildah stores images for these tests only."""

    home: Path

    def buildah(self, *arguments: str | Path) -> str:
        places = ("--root", self.home / "images", "--runroot", self.home / "run")
        command = ["buildah", *places, *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def import_base(self) -> None:
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, _base(), "/")
        # Let the image trust the same certificate authorities as this machine.
        self.buildah("copy", "--quiet", container, _AUTHORITIES, _AUTHORITIES)
        self.buildah("commit", "--quiet", "--rm", container, BASE_NAME)

    def build(self, target: str, context: Path) -> Image:
        Path(_PIP_CACHE).mkdir(parents=True, exist_ok=True)
        self.buildah(
            *("bud", "--isolation", "chroot", "--pull-never", "--layers", "--format", "docker"),
            *("--volume", f"{_PIP_CACHE}:{_PIP_CACHE}"),
            *("--target", target, "--tag", TARGETS[target], context),
        )
        shown = json.loads(self.buildah("inspect", "--type", "image", TARGETS[target]))
        listed = json.loads(self.buildah("images", "--json", TARGETS[target]))
        root = self.buildah("mount", self.buildah("from", "--pull-never", TARGETS[target]))
        return Image(
            root=Path(root), size=_bytes(listed[0]["size"]), settings=shown["Docker"]["config"]
        )


def _base() -> Path:
    """Return the path of the base's archive; make the archive if it does not exist."""
    if not BASE.exists():
        BASE.parent.mkdir(parents=True, exist_ok=True)
        made = BASE.with_name("new.tar")
        how = ("--variant=minbase", f"--include={_DEBIAN}", "bookworm", made)
        command: list[str | Path] = ["mmdebstrap", "--quiet", *how]
        subprocess.run(command, check=True)
        made.rename(BASE)
    return BASE


def _megabytes(path: Path) -> int:
    sizes = (each.lstat().st_size for each in path.rglob("*") if not each.is_dir())
    return sum(sizes) // 10**6


def _bytes(text: str) -> int:
    number, unit = text.split()
    return int(float(number) * {"KB": 10**3, "MB": 10**6, "GB": 10**9}[unit])


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tests.servers.images install")
    try:
        install()
    except MissingError as error:
        sys.exit(str(error))
