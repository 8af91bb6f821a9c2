"""What Spark is going to do for a frame."""

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame


def plan_of(frame: DataFrame) -> str:
    """The physical plan, as text."""
    text: str = frame._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - no other way to the plan
    return text


def shuffles(frame: DataFrame) -> Sequence[str]:
    """By what rows go to other tasks, in the order of the plan; `SinglePartition`: all to one."""
    return re.findall(r"Exchange (\w+(?:\([^)]*\))?)", _without_ids(plan_of(frame)))


def _without_ids(plan: str) -> str:
    """Columns by their names alone."""
    return re.sub(r"(?<=\w)#\d+L?", "", plan)
