"""What Angelia sets for Spark, and what the operator's `spark-defaults.conf` replaces."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.config import Settings, let_spark_run
from spark.defaults import operator_settings
from spark.session import NEEDED, chosen
from tests.architecture.tree import ROOT

PAGE: Path = ROOT / "docs/spark.md"
NOTHING: Mapping[str, str] = {}


def test_the_settings_of_the_operator_are_read_as_java_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert operator_settings() == {}
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.a 1\n! spark.b 2\n\nspark.c   3 and more\nspark.d=4\n  spark.e : 5\n"
        "spark.f 6,\\\n   7\nspark.g\n"
    )
    assert operator_settings() == {
        "spark.c": "3 and more",
        "spark.d": "4",
        "spark.e": "5",
        "spark.f": "6,7",
        "spark.g": "",
    }


def test_they_are_looked_for_where_spark_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("spark.a 1")
    assert operator_settings() == {"spark.a": "1"}


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_what_the_operator_sets_replaces_our_defaults_but_what_correctness_needs(
    master: str,
) -> None:
    settings = Settings(spark_master=master)
    ours = chosen(settings, NOTHING)
    left = chosen(settings, dict.fromkeys(ours, "theirs"))
    of_jars = {name for name in NEEDED if name.startswith("spark.jars")}
    of_local = {"spark.executorEnv.PYTHONSAFEPATH"}
    always = NEEDED.keys() - of_jars - of_local
    assert left == {name: ours[name] for name in left}
    assert left.keys() == always | (of_local if master.startswith("local") else set())
    assert ours["spark.driver.memory"] == "1g"
    assert "spark.ui.enabled" in ours


def test_the_connectors_replace_jars_of_the_operator() -> None:
    settings = Settings(spark_output="s3a://bucket/folder")
    jars = {"spark.jars.packages", "spark.jars.excludes"}
    assert jars < chosen(settings, dict.fromkeys(jars, "theirs")).keys()


def test_the_page_names_what_is_needed_with_its_reason() -> None:
    rows = re.findall(r"^\| `(spark\.[\w.]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == NEEDED


def test_only_a_session_on_this_machine_gets_what_is_for_this_machine() -> None:
    remote = chosen(Settings(spark_master="spark://host:7077"), NOTHING)
    local = chosen(Settings(spark_master="local[2]"), NOTHING)
    assert local.keys() - remote.keys() == {
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.executorEnv.PYTHONSAFEPATH",
        "spark.python.daemon.module",
        "spark.sql.shuffle.partitions",
    }


def test_the_memory_of_the_settings_goes_before_that_of_spark_where_both_are_set() -> None:
    theirs = {"spark.driver.memory": "4g"}
    assert "spark.driver.memory" not in chosen(Settings(), theirs)
    assert chosen(Settings(spark_memory="2g"), theirs)["spark.driver.memory"] == "2g"


@pytest.mark.parametrize(
    ("before", "executors", "expected"),
    [
        (None, None, "/ours"),
        (None, "/theirs", "/theirs"),
        ("/environment", "/theirs", "/environment"),
    ],
)
def test_executors_run_our_python_unless_the_operator_names_another(
    monkeypatch: pytest.MonkeyPatch, before: str | None, executors: str | None, expected: str
) -> None:
    # So that all are afterwards as they were.
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/other")
    monkeypatch.setenv("PYSPARK_PYTHON", before or "")
    if before is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    let_spark_run("/ours", executors=executors)
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == "/ours"
    assert os.environ["PYSPARK_PYTHON"] == expected


def test_a_python_that_is_named_without_a_folder_is_ours_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/other")
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    monkeypatch.setenv("PATH", "/usr/bin")
    for _ in range(2):
        let_spark_run("/ours/bin/python")
    assert os.environ["PATH"] == f"/ours/bin{os.pathsep}/usr/bin"
