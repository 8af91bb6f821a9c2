"""The Spark session of a process."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from app.config import Settings
from spark.connectors import connectors
from spark.records import RowsSource
from spark.sources import UndeliveredSource
from spark.traces import TracesSource

APP_NAME: Final = "angelia"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
# What Spark keeps of each for its pages, a thousand unless told.
_KEPT: Final = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.sql.ui.retainedExecutions",
)
# What results must not depend on.
_ALWAYS: Final[Mapping[str, str]] = {"spark.sql.session.timeZone": "UTC"}
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Executors elsewhere need not have us installed; this machine has.
    "spark.python.daemon.module": "spark.worker_daemon",
    # Nor do Python workers import what lies in the current directory.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # Adaptive execution merges what is too small, and splits nothing on one machine.
    "spark.sql.shuffle.partitions": "4",
}


def new_session(settings: Settings, **conf: str) -> SparkSession:
    """A session on the master of the settings; `conf` replaces single values of ours.

    It takes seconds to start, and is to be kept.
    """
    local = settings.spark_master.startswith("local")
    chosen = {
        "spark.driver.memory": settings.spark_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Nobody looks at what was done before: a session is kept for long, and its plans are large.
        **dict.fromkeys(_KEPT, "50"),
        # Else Spark tells of its start in a dozen lines, among those of ours.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
        **(_LOCAL if local else {}),
        **connectors(settings),
        **conf,
    }
    builder = SparkSession.builder.appName(APP_NAME).master(settings.spark_master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if local:
        # Tasks run on this very Python, not on whichever is called python3 here.
        session.sparkContext.pythonExec = sys.executable
    return prepared(session)


def submitted_session() -> SparkSession:
    """The session of a process that `spark-submit` has started, with what that was told."""
    return prepared(SparkSession.builder.appName(APP_NAME).getOrCreate())


def prepared(session: SparkSession) -> SparkSession:
    """`session`, able to read what we store."""
    for name, value in _ALWAYS.items():
        session.conf.set(name, value)
    session.dataSource.register(UndeliveredSource)
    session.dataSource.register(RowsSource)
    session.dataSource.register(TracesSource)
    return session
