"""What `make sbom` builds, as users get it: installed by pip, and started outside of this tree."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZipFile

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tree import ROOT, files
from tests.e2e.cli import Place, wait_until
from tests.fakes.hostile_directory import HostileDirectory

# PySpark alone is 400 MB: minutes where pip has not kept it.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
PACKAGES: Final = ("angelia_client", "app", "migrations", "spark", "workers")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOPIC: Final = "shop.orders"


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    with TemporaryDirectory(prefix="angelia-test-") as folder:
        rest = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        command = ["make", "sbom", f"DIST={folder}"]
        subprocess.run(command, cwd=ROOT, env=rest, check=True)
        yield Path(folder)


@pytest.fixture(scope="module")
def angelia(built: Path) -> Path:
    """The command of a fresh environment, where pip chose of the versions that the lock names."""
    subprocess.run([sys.executable, "-m", "venv", built / "fresh"], check=True)
    locked = built / "locked.txt"
    locked.write_text("\n".join(f"{name}=={version}" for name, version in _locked().items()))
    pip = (built / "fresh/bin/python", "-m", "pip", "install", "--quiet", "--constraint", locked)
    subprocess.run([*pip, f"{_wheel(built)}[spark]"], check=True)
    return built / "fresh/bin/angelia"


def _locked() -> dict[str, str]:
    """What the lock has for this Python, without its hashes."""
    text = (ROOT / "requirements-spark.lock").read_text()
    lines = re.findall(r"^(\S+==[^\\\n]+)", text, re.MULTILINE)
    wanted = [each for line in lines if _is_ours(each := Requirement(line))]
    return {canonicalize_name(each.name): str(each.specifier).lstrip("=") for each in wanted}


def _is_ours(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate()


def _wheel(built: Path) -> Path:
    return built / f"angelia-{PROJECT['version']}-py3-none-any.whl"


def test_wheel_and_sdist_have_each_file_of_the_packages(built: Path) -> None:
    ours = {
        path.relative_to(ROOT).as_posix() for package in PACKAGES for path in files(ROOT / package)
    }
    with ZipFile(_wheel(built)) as wheel:
        assert ours <= set(wheel.namelist())
    root = f"angelia-{PROJECT['version']}"
    with tarfile.open(built / f"{root}.tar.gz") as sdist:
        assert {f"{root}/{name}" for name in ours} <= set(sdist.getnames())


def test_the_sbom_and_the_licences_name_all_that_is_installed(built: Path) -> None:
    sbom = json.loads((built / "angelia.cdx.json").read_text())
    assert sbom["metadata"]["component"]["version"] == PROJECT["version"]
    found = {canonicalize_name(each["name"]): each["version"] for each in sbom["components"]}
    assert found == _locked()
    named = (built / "THIRD-PARTY-LICENSES.txt").read_text().splitlines()
    assert found.keys() <= {canonicalize_name(line) for line in named}


def test_what_pip_installed_delivers_a_first_message(angelia: Path, place: Place) -> None:
    hostile = HostileDirectory(place.home.parent / "hostile")
    there = replace(place, program=[str(angelia)], directory=hostile.path, with_java=True)
    assert there.run("--version").stdout == f"angelia {PROJECT['version']}\n"
    with there.started("up") as up:
        up.says(f"Angelia is ready at {place.url}")
        with there.started("listen", "--topic", TOPIC) as listen:
            listen.says("Listening")
            _publish(place)
            listen.says('"order": 1')
            assert listen.interrupt() == 0
        wait_until(lambda: len(there.processes("spark")) == 1, "no Spark runner")
        assert httpx.get(f"{place.url}/docs", trust_env=False).status_code == 200
        assert up.interrupt() == 0, up.output
    assert hostile.run == ""


def _publish(place: Place) -> None:
    answer = httpx.post(f"{place.url}/topics/{TOPIC}", json={"order": 1}, trust_env=False)
    assert answer.status_code == 201
