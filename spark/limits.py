"""Limits the number of tasks that Spark runs at a time, because tasks connect to PostgreSQL."""

import re
from collections.abc import Mapping
from typing import Final

from pyspark import SparkConf, SparkContext

_MASTER: Final = "spark.master"
# The forms of a Spark master on this machine: `local`, `local[4]`, `local[*]`. The number of
# allowed failures may follow, as in `local[4,2]`.
_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?")
# A number larger than any limit. It is the default of a setting for which Spark has no limit.
_UNLIMITED: Final = 1 << 31


def tasks_limited(ours: Mapping[str, str], *, tasks_max: int) -> Mapping[str, str]:
    """Return the settings `ours` of a new Spark session, so that it runs at most `tasks_max` tasks.

    The function starts Java, and gets the number of cores and the operator's settings from it.
    """
    conf = SparkConf().setAll(list(ours.items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - PySpark has no public method
    theirs = dict(SparkConf().getAll())
    return {**ours, **limits({**theirs, **ours}, cores=_cores(), tasks_max=tasks_max)}


def limits(given: Mapping[str, str], *, cores: int, tasks_max: int) -> Mapping[str, str]:
    """Return the settings to replace so that at most `tasks_max` tasks run at a time.

    `given` are all settings of the session. Settings that allow fewer tasks are not replaced.
    `cores` is the number of cores that `local[*]` uses.
    """
    cores_max = tasks_max * int(given.get("spark.task.cpus", "1"))
    if local := _LOCAL.fullmatch(given.get(_MASTER, "")):
        threads = local[1] or "1"
        used = cores if threads == "*" else int(threads)
        return {_MASTER: f"local[{cores_max}{local[2] or ''}]"} if used > cores_max else {}
    of_executor = min(cores_max, int(given.get("spark.executor.cores", "1")))
    executors = cores_max // of_executor
    # For each setting: the highest value that is allowed here, and the default of Spark.
    allowed = {
        "spark.cores.max": (cores_max, _UNLIMITED),
        "spark.executor.cores": (cores_max, 1),
        "spark.executor.instances": (executors, 2),
        "spark.dynamicAllocation.maxExecutors": (executors, _UNLIMITED),
        "spark.dynamicAllocation.initialExecutors": (executors, 0),
        "spark.dynamicAllocation.minExecutors": (executors, 0),
    }
    return {
        name: str(highest)
        for name, (highest, default) in allowed.items()
        if int(given.get(name, default)) > highest
    }


def _cores() -> int:
    jvm = SparkContext._jvm  # noqa: SLF001 - PySpark has no public method
    if jvm is None:
        raise RuntimeError("Java has not started")
    cores: int = jvm.java.lang.Runtime.getRuntime().availableProcessors()
    return cores
