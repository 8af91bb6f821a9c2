"""A small Spark on this machine, for tests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from app.cli.commands.spark import missing_for_spark
from app.config import Settings
from spark.session import new_session
from tests.servers import java
from tests.servers.spark_kafka import jars

# For tables of a few rows, on a machine that does other things, too: nothing is compiled that does
# not pay before the test ends.
FRUGAL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "2",
    # Plans are looked at as text.
    "spark.sql.maxMetadataStringLength": "10000",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # In other zones than that of the machine: results are in UTC all the same.
    "spark.driver.extraJavaOptions": " ".join((*java.OPTIONS, "-Duser.timezone=America/St_Johns")),
    "spark.executorEnv.TZ": "Asia/Kathmandu",
}

# So many tasks run at a time.
TASKS_MAX: Final = 2


@contextmanager
def small_session(
    place: Path,
    *,
    conf: Mapping[str, str] = FRUGAL,
    memory: str = "1g",
    more_jars: Sequence[Path] = (),
) -> Iterator[SparkSession]:
    """A session with its files in `place`; after the block its Java is gone.

    It runs TASKS_MAX tasks at a time.
    Without Java: RuntimeError with the line that installs it.
    """
    if missing := list(missing_for_spark()):
        raise RuntimeError("; ".join(missing))
    # Spark would have four threads.
    settings = Settings(spark_master="local[4]", spark_tasks_max=TASKS_MAX, spark_memory=memory)
    places = {"spark.local.dir": f"{place}/local", "spark.sql.warehouse.dir": f"{place}/warehouse"}
    connector = {"spark.jars": ",".join(map(str, [*jars(), *more_jars]))}
    session = new_session(settings, **kept_in(place, conf), **places, **connector)
    try:
        yield session
    finally:
        session.stop()
        _end_java()


def kept_in(place: Path, conf: Mapping[str, str]) -> Mapping[str, str]:
    """The same with all that Java writes for a while in `place`, which goes away with the test."""
    java = "spark.driver.extraJavaOptions"
    return {**conf, java: f"{conf.get(java, '')} -Djava.io.tmpdir={place}"}


def _end_java() -> None:
    """End the process that Spark runs in, which would stay as long as this one."""
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its process
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    # It ends when it has nobody to listen to.
    process.stdin.close()
    process.wait(timeout=20)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the same
