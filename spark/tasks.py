"""Reads Spark's reports about the tasks of its jobs."""

from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.steps import Begun

_RUNNING: Final = "RUNNING"


class SessionJobs:
    """The Spark jobs that belong to one job of Angelia. See `spark.steps.SparkJobs`.

    In Spark, the job's id is the name of a group of Spark jobs.
    """

    def __init__(self, session: SparkSession, group: str) -> None:
        self._group = group
        self._context = session.sparkContext
        self._tracker = session.sparkContext.statusTracker()

    def begun(self) -> int:
        """Return the number that the next Spark job gets, whatever job it belongs to.

        Raises:
            Py4JError: Spark has ended.
            OSError: Spark has ended.
        """
        # Ask Spark's scheduler for the number. Spark's status tracker learns about a Spark job a
        # little later. With the tracker's number, a Spark job of the last step could be counted in
        # the next step.
        scheduler = self._context._jsc.sc().dagScheduler()  # noqa: SLF001 - PySpark has no types
        return int(scheduler.numTotalJobs())

    def since(self, first: int) -> Begun:
        """Return this job's Spark jobs from number `first` on. Empty if Spark reports none."""
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
