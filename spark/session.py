"""The Spark session of a process."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from app.config import Settings, let_spark_run
from spark.connectors import connectors
from spark.defaults import operator_settings
from spark.kafka_options import java_options
from spark.ledger_records import LedgerSource
from spark.limits import tasks_limited
from spark.records import RowsSource
from spark.sources import UndeliveredSource
from spark.traces import TracesSource

APP_NAME: Final = "angelia"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
# The settings that say how many jobs, stages and queries Spark keeps for its web pages. Spark's
# default is a thousand of each.
_KEPT: Final = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.sql.ui.retainedExecutions",
)
# The settings that the operator cannot replace. The text after each setting is the reason.
# docs/spark.md names these settings.
NEEDED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "Results are in UTC everywhere.",
    "spark.sql.files.ignoreCorruptFiles": "A job reads an archive whole, or fails.",
    "spark.sql.files.ignoreMissingFiles": "A job reads an archive whole, or fails.",
    "spark.speculation": "Two copies of a task would take partitions from each other.",
    "spark.driver.defaultJavaOptions": "It has the logging, and Kafka's login.",
    "spark.executor.defaultJavaOptions": "It has Kafka's login.",
    "spark.executorEnv.PYTHONSAFEPATH": "Here, no code of the current directory is imported.",
    "spark.jars": "With Kafka or S3, it has the connectors.",
    "spark.jars.packages": "With Kafka or S3, it has the connectors.",
    "spark.jars.excludes": "With Kafka or S3, it has what the connectors do without.",
}
# Values of settings that every session needs, even a session that `spark-submit` starts.
_ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.speculation": "false",
}
# The value of one more setting. A session needs it if its Python workers run on this machine.
_LOCAL_ALWAYS: Final[Mapping[str, str]] = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
# Angelia's defaults. Settings of the operator in `spark-defaults.conf` replace them.
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Divide the cores fairly between the lanes of the runner. A lane has some kinds of jobs: see
    # `spark.lanes`.
    "spark.scheduler.mode": "FAIR",
    # Keep the details of only a few old jobs. A session runs for long, and the plans of its jobs
    # are large.
    **dict.fromkeys(_KEPT, "50"),
}
_LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Use Angelia's own daemon only for local executors. Remote executors may not have Angelia
    # installed.
    "spark.python.daemon.module": "spark.worker_daemon",
    # Start with few partitions. Spark's adaptive execution can merge small partitions later, but
    # does not split large partitions on one machine.
    "spark.sql.shuffle.partitions": "4",
}
_MEMORY: Final = "spark.driver.memory"


def new_session(settings: Settings, **conf: str) -> SparkSession:
    """Return a Spark session on the Spark master that the settings name.

    `conf` has Spark settings that replace all other values of the same settings. Starting a session
    takes seconds, so use one session for many jobs.
    """
    local = settings.spark_master.startswith("local")
    theirs = operator_settings()
    let_spark_run(sys.executable, executors=theirs.get("spark.pyspark.python"))
    ours = {**chosen(settings, theirs), **conf, "spark.master": settings.spark_master}
    session = _started(ours, settings)
    if local:
        # Run tasks with the Python of this process, because `python3` may be another one.
        session.sparkContext.pythonExec = sys.executable
    return prepared(session)


def chosen(settings: Settings, theirs: Mapping[str, str]) -> Mapping[str, str]:
    """Return Angelia's settings of a Spark session, without those that the operator replaces.

    `theirs` are the operator's settings. They replace Angelia's settings, except the settings in
    NEEDED.
    """
    local = settings.spark_master.startswith("local")
    kafka = java_options(settings.kafka_security)
    ours = {
        **_DEFAULTS,
        **(_LOCAL_DEFAULTS if local else {}),
        _MEMORY: settings.spark_memory,
        **_ALWAYS,
        # Configure the logs of the JVM. Without this setting, Spark writes a dozen lines when it
        # starts.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} {kafka}",
        "spark.executor.defaultJavaOptions": kafka,
        **(_LOCAL_ALWAYS if local else {}),
        **connectors(settings),
    }
    needed = set(NEEDED)
    if "spark_memory" in settings.model_fields_set:
        # The operator has set Spark's memory in Angelia's settings. Use this value even if
        # `spark-defaults.conf` has another one, because the documents tell operators to use
        # Angelia's setting.
        needed.add(_MEMORY)
    return {name: value for name, value in ours.items() if name in needed or name not in theirs}


def submitted_session(settings: Settings) -> SparkSession:
    """Return the Spark session of a process that `spark-submit` has started.

    The session has the Spark settings that `spark-submit` got as arguments. Two kinds of settings
    are replaced: those that every session needs, and those that allow more tasks than `settings`.
    """
    let_spark_run(sys.executable)
    return prepared(_started(_ALWAYS, settings))


def _started(ours: Mapping[str, str], settings: Settings) -> SparkSession:
    builder = SparkSession.builder.appName(APP_NAME)
    for name, value in tasks_limited(ours, tasks_max=settings.spark_tasks_max).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def prepared(session: SparkSession) -> SparkSession:
    """Prepare `session` so that it can read Angelia's data, and return it."""
    for name, value in _ALWAYS.items():
        # Leave out settings that cannot be changed any more after the session has started.
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    session.dataSource.register(UndeliveredSource)
    session.dataSource.register(RowsSource)
    session.dataSource.register(LedgerSource)
    session.dataSource.register(TracesSource)
    return session
