"""`angelia spark pack`: what executors need, for a Python that has none of it."""

import os
import pkgutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from app.cli.executor_archive import LEFT_OUT, archive_name, packed_packages, python_name

PATIENCE_S = 120
# Packages of this project that tasks import from, whole.
NEEDED = ("spark", "app.domain", "app.filtering", "app.log", "app.schemas", "app.storage.spark")


def pack(archive: Path) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "app.cli.main", "spark", "pack", "--output", str(archive))
    return ended(command, environment=os.environ)


def ended(
    command: tuple[str, ...], *, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def a_bare_python(place: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    return str(place / "bin" / python_name())


def modules() -> list[str]:
    """All that tasks may import."""
    found = list[str]()
    for name in NEEDED:
        package = __import__(name, fromlist=["__path__"])
        found += [each.name for each in pkgutil.walk_packages(package.__path__, f"{name}.")]
    return [name for name in found if not name.endswith("__main__")]


@pytest.mark.long
def test_a_python_without_packages_imports_from_the_archive_all_that_tasks_do(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "angelia.tar.gz"
    said = pack(archive)
    assert said.stdout.splitlines() == [
        f"spark.archives                {archive}#angelia",
        "spark.executorEnv.PYTHONPATH  angelia",
        f"spark.pyspark.python          {python_name()}",
    ]
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "angelia", filter="data")
    archive.unlink()
    # Spark gives executors its own PySpark, in two zip files.
    libraries = [str(each) for each in (Path(pyspark.__file__).parent / "python/lib").glob("*.zip")]
    code = "; ".join(f"import {name}" for name in modules())
    command = (a_bare_python(tmp_path / "bare"), "-c", code)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    for packages in ([], [str(tmp_path / "angelia")]):
        environment["PYTHONPATH"] = os.pathsep.join([*libraries, *packages])
        answer = ended(command, environment=environment)
        assert (answer.returncode == 0) == bool(packages), answer.stderr
    assert not (tmp_path / "angelia/pyspark").exists()


def test_an_archive_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    said = pack(tmp_path / "nowhere" / "angelia.tar.gz")
    assert said.returncode == 1
    assert f"{tmp_path}/nowhere/angelia.tar.gz cannot be written: No such file" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_archive_has_what_is_required_and_not_spark_itself() -> None:
    packages = packed_packages().keys()
    assert {"angelia", "pyarrow", "pandas", "psycopg-binary", "google-re2"} <= packages
    assert not LEFT_OUT & packages
    # Nothing that only tests need.
    assert "pytest" not in packages


def test_the_name_of_the_archive_says_which_executors_it_fits() -> None:
    assert archive_name().startswith("angelia-")
    assert f"-{python_name()}-" in archive_name()
