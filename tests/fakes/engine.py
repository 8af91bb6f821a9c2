"""A Spark that does nothing until it is told how its job ends."""

from threading import Event

from app.domain.job import Job, JobResult
from spark.work import WorkProgress

PATIENCE_S = 60.0


class FakeEngine:
    """Does one job at a time: `begun` when one has begun; it ends when it is told to, or stopped.

    `error` is what a job raises, `result` what it else makes; a job that is stopped raises
    `stopped_by`, as Spark does when its work is cancelled.
    """

    def __init__(self) -> None:
        self.begun = Event()
        self.may_end = Event()
        self.error: Exception | None = None
        self.stopped_by: Exception | None = None
        self.result = JobResult(counts={"messages": 7})
        self.jobs: list[Job] = []
        self.cancels = 0

    def run(self, job: Job, progress: WorkProgress) -> JobResult:
        self.jobs.append(job)
        progress.step("counting", done=0.5, until=0.9)
        self.begun.set()
        if not self.may_end.wait(PATIENCE_S):
            raise TimeoutError
        if self.stopped_by is not None and progress.stopped:
            raise self.stopped_by
        progress.step("writing", done=0.9, until=1.0)
        if self.error is not None:
            raise self.error
        return self.result

    def cancel(self, job: Job) -> None:
        assert job is self.jobs[-1]
        self.cancels += 1
        self.may_end.set()
