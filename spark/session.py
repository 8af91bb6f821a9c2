"""The Spark session of a process."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from app.config import Settings
from spark.connectors import connectors
from spark.kafka_options import java_options
from spark.records import RowsSource
from spark.sources import UndeliveredSource
from spark.traces import TracesSource

APP_NAME: Final = "angelia"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
# The settings that say how many jobs, stages and queries Spark keeps for its web pages, by default
# a thousand of each.
_KEPT: Final = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.sql.ui.retainedExecutions",
)
# Settings that every session needs so that results are the same everywhere.
_ALWAYS: Final[Mapping[str, str]] = {"spark.sql.session.timeZone": "UTC"}
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Only for local executors: remote executors may not have Angelia installed.
    "spark.python.daemon.module": "spark.worker_daemon",
    # Keep Python workers from importing from the current directory.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # Start with few partitions: adaptive execution merges small ones, but does not split any on one
    # machine.
    "spark.sql.shuffle.partitions": "4",
}


def new_session(settings: Settings, **conf: str) -> SparkSession:
    """Return a session on the master of the settings; `conf` replaces single values.

    Starting a session takes seconds, so keep it.
    """
    local = settings.spark_master.startswith("local")
    kafka = java_options(settings.kafka_security)
    chosen = {
        "spark.driver.memory": settings.spark_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Keep few old details: a session runs for long, and its plans are large.
        **dict.fromkeys(_KEPT, "50"),
        # Set up logging: otherwise Spark writes a dozen lines when it starts.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} {kafka}",
        "spark.executor.defaultJavaOptions": kafka,
        **(_LOCAL if local else {}),
        **connectors(settings),
        **conf,
    }
    builder = SparkSession.builder.appName(APP_NAME).master(settings.spark_master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if local:
        # Run tasks by this Python, and not by whichever one is called python3.
        session.sparkContext.pythonExec = sys.executable
    return prepared(session)


def submitted_session() -> SparkSession:
    """Return the session of a process that `spark-submit` started, with its arguments."""
    return prepared(SparkSession.builder.appName(APP_NAME).getOrCreate())


def prepared(session: SparkSession) -> SparkSession:
    """Return `session` after making it able to read Angelia's data."""
    for name, value in _ALWAYS.items():
        session.conf.set(name, value)
    session.dataSource.register(UndeliveredSource)
    session.dataSource.register(RowsSource)
    session.dataSource.register(TracesSource)
    return session
