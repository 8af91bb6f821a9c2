"""The units of systemd for plain hosts."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from app.cli.main import COMMANDS
from tests.architecture.tree import ROOT
from tests.servers.jars import MissingError
from workers.assignment.supervisor import LAST_COMMIT_TIMEOUT, LAST_REQUEST_TIMEOUT

FOLDER: Final = ROOT / "deploy" / "systemd"
UNITS: Final = {path.stem.removeprefix("angelia-"): path for path in FOLDER.glob("*.service")}
HELM: Final = "terminationGracePeriodSeconds"
ANGELIA: Final = "/opt/angelia/bin/angelia"


def test_each_process_has_a_unit_that_runs_it() -> None:
    assert UNITS.keys() == {"api", "worker", "spark", "migrate"}
    commands = {entry.name for entry in COMMANDS}
    for name, path in UNITS.items():
        assert re.findall(rf"^ExecStart={ANGELIA} (\w+)", path.read_text(), re.MULTILINE) == [name]
        assert name in commands


def test_all_units_have_the_same_bounds() -> None:
    bounds = {path.read_text().partition("\n# It writes nothing")[2].partition("\n[")[0].strip()
              for path in UNITS.values()}  # fmt: skip
    assert len(bounds) == 1


def test_a_worker_has_the_time_that_it_takes_to_stop() -> None:
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNITS["worker"].read_text(), re.MULTILINE)
    assert int(seconds) > (LAST_REQUEST_TIMEOUT + LAST_COMMIT_TIMEOUT).total_seconds() + 5


@pytest.mark.parametrize("name", ["worker", "spark"])
def test_a_process_has_the_same_time_to_stop_wherever_it_runs(name: str) -> None:
    (by_systemd,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNITS[name].read_text(), re.MULTILINE)
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert compose["services"][name]["stop_grace_period"] == f"{by_systemd}s"
    chart = ROOT / "deploy" / "helm" / "angelia"
    given = yaml.safe_load((chart / "values.yaml").read_text())["worker"][HELM]
    template = (chart / "templates" / f"{name}.yaml").read_text()
    rendered = template.replace(f"{{{{ .Values.worker.{HELM} }}}}", str(given))
    assert f" {HELM}: {by_systemd}\n" in rendered


@pytest.mark.parametrize("name", ["worker", "spark"])
def test_a_process_with_children_stops_them_itself(name: str) -> None:
    assert "\nKillMode=mixed\n" in UNITS[name].read_text()


@pytest.mark.long
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        raise MissingError("The units are checked by systemd: apt-get install -y systemd")
    program = tmp_path / "angelia"
    program.touch(mode=0o755)
    for path in UNITS.values():
        (tmp_path / path.name).write_text(path.read_text().replace(ANGELIA, str(program)))
    done = subprocess.run(
        [command, "verify", *sorted(tmp_path.glob("*.service"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
