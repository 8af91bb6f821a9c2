"""Reads Spark's reports about the tasks of its jobs."""

from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.steps import Begun

_RUNNING: Final = "RUNNING"


class SessionJobs:
    """The Spark jobs of one Angelia job, whose id is the `group`. See `spark.steps.SparkJobs`."""

    def __init__(self, session: SparkSession, group: str) -> None:
        self._group = group
        self._context = session.sparkContext
        self._tracker = session.sparkContext.statusTracker()

    def begun(self) -> int:
        """Return the number that the next Spark job gets, in any group.

        Raises:
            Py4JError: Spark has ended.
            OSError: Spark has ended.
        """
        # Ask the scheduler. The status tracker knows about Spark jobs a little later, so a job of
        # the last step could be counted in the next step.
        scheduler = self._context._jsc.sc().dagScheduler()  # noqa: SLF001 - PySpark has no types
        return int(scheduler.numTotalJobs())

    def since(self, first: int) -> Begun:
        """Return the group's Spark jobs from number `first` on; empty if Spark reports none."""
        with suppress(Py4JError, OSError):
            return self._since(first)
        return Begun()

    def _since(self, first: int) -> Begun:
        numbers = [each for each in self._tracker.getJobIdsForGroup(self._group) if each >= first]
        job = self._tracker.getJobInfo(max(numbers)) if numbers else None
        if job is None:
            return Begun()
        jobs = len(numbers)
        if job.status != _RUNNING:
            return Begun(jobs=jobs, completed=1, tasks=1)
        stages = [self._tracker.getStageInfo(each) for each in job.stageIds]
        known = [each for each in stages if each is not None]
        return Begun(
            jobs=jobs,
            completed=sum(each.numCompletedTasks for each in known),
            tasks=sum(each.numTasks for each in known),
        )
