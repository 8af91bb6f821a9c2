"""Requested jobs by `spark-submit` alone, without a runner."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from app.domain.replay.retransmission import RetransmissionState
from app.storage.database import Database
from tests.architecture.tree import ROOT
from tests.contract.harness import PostgresHarness
from tests.spark.retransmissions import a_bench, places
from tests.spark.small import FRUGAL, kept_in

# Spark starts, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

PATIENCE_S = 300.0


async def submitted(
    place: Path,
    script: Path,
    arguments: Sequence[str],
    *,
    options: Sequence[str] = ("--master", "local[2]"),
    defaults: Mapping[str, str] = FRUGAL,
    settings: Mapping[str, str],
) -> dict[str, Any]:
    """What `spark-submit` of that script, as users write it, says at its end."""
    folder = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANGELIA_")} | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(place),
        **settings,
    }
    conf = {
        **kept_in(place, {**FRUGAL, **defaults}),
        "spark.ui.enabled": "false",
        "spark.local.dir": f"{place}/local",
    }
    lines = "\n".join(f"{name} {value}" for name, value in conf.items())
    (place / "spark-defaults.conf").write_text(lines)
    submit = str(folder / "spark-submit")
    command = (submit, "--driver-memory", "512m", *options, str(script), *arguments)
    # Anywhere but in the project: the script finds its own.
    process = await asyncio.create_subprocess_exec(
        *command, cwd=place, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            written, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    said: dict[str, Any] = json.loads(written.splitlines()[-1])
    return said


# Without a process, on the session of all tests: test_latency_job.py.
@pytest.mark.long
async def test_a_requested_retransmission_is_chosen_by_spark_submit_alone(
    database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    # This process has no Spark.
    no_session: Any = None
    async with a_bench(no_session, database, harness, url=postgres_url, output=tmp_path) as bench:
        positions = await bench.publish(*(b"%d" % number for number in range(50)))
        another = await bench.asked()
        asked = await bench.asked()
        said = await submitted(
            tmp_path,
            ROOT / "spark/jobs/retransmission.py",
            ["--job", asked.id],
            settings={
                "ANGELIA_DATABASE_URL": postgres_url,
                "ANGELIA_NAMESPACE": harness.namespace,
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        archived = {"archived": 0, "archivedBytes": 0, "gone": 0}
        counts = {"messages": 50, "bytes": 90, **archived}
        assert said == {"id": asked.id, "state": "DONE", "counts": counts, "reason": None}
        seen = await bench.seen(asked)
        assert (seen.state, seen.counts.matched) == (RetransmissionState.SENDING, 50)
        assert await bench.places(asked) == places(positions)
        # That one was requested before it, and nobody asked for it here.
        assert (await bench.seen(another)).state is RetransmissionState.REQUESTED


SHOWN: Final = """
import json, sys
from app.config import Settings
from spark.session import submitted_session
session = submitted_session(Settings())
print(json.dumps({name: session.conf.get(name) for name in sys.argv[1:]}))
"""


# What is needed, without a process: tests/unit/test_spark_defaults.py.
@pytest.mark.long
async def test_options_of_spark_submit_replace_ours_but_not_what_is_needed(tmp_path: Path) -> None:
    script = tmp_path / "shown.py"
    script.write_text(SHOWN)
    given = {
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.speculation": "true",
        "spark.sql.shuffle.partitions": "7",
        "spark.scheduler.mode": "FIFO",
    }
    options = [each for pair in given.items() for each in ("--conf", "=".join(pair))]
    said = await submitted(
        tmp_path,
        script,
        ["spark.master", *given],
        options=["--master", "local[3]", *options],
        settings={"ANGELIA_SPARK_TASKS_MAX": "1"},
    )
    assert said == given | {
        "spark.master": "local[1]",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.speculation": "false",
    }
