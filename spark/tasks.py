"""Reads Spark's reports about the tasks of its jobs."""

from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.steps import Begun

_RUNNING: Final = "RUNNING"


class SessionJobs:
    """The Spark jobs of a session, numbered from 0. See `spark.steps.SparkJobs`.

    Spark forgets old jobs, so only the newest job is read.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._tracker = session.sparkContext.statusTracker()

    def begun(self) -> int:
        """Return how many Spark jobs the session has started so far.

        Raises:
            Py4JError: Spark has ended.
            OSError: Spark has ended.
        """
        # Ask the scheduler. The status tracker knows about Spark jobs a little later, so a job of
        # the last step could be counted in the next step.
        scheduler = self._context._jsc.sc().dagScheduler()  # noqa: SLF001 - PySpark has no types
        return int(scheduler.numTotalJobs())

    def since(self, first: int) -> Begun:
        """Return the Spark jobs that started after the first `first` jobs.

        The result is empty if Spark does not report them.
        """
        with suppress(Py4JError, OSError):
            return self._since(first)
        return Begun()

    def _since(self, first: int) -> Begun:
        jobs = self.begun() - first
        job = self._tracker.getJobInfo(first + jobs - 1) if jobs > 0 else None
        if job is None:
            return Begun(jobs=max(jobs, 0))
        if job.status != _RUNNING:
            return Begun(jobs=jobs, completed=1, tasks=1)
        stages = [self._tracker.getStageInfo(each) for each in job.stageIds]
        known = [each for each in stages if each is not None]
        return Begun(
            jobs=jobs,
            completed=sum(each.numCompletedTasks for each in known),
            tasks=sum(each.numTasks for each in known),
        )
