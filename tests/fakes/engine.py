"""A Spark engine that does nothing, and ends its job only when the test says so."""

from threading import Event

from app.domain.job import Job, JobResult
from spark.work import WorkProgress

PATIENCE_S = 60.0


class FakeEngine:
    """Runs one job at a time. The job ends when the test sets `may_end`, or when it is cancelled.

    Attributes:
        begun: Set when a job has begun.
        may_end: Set by the test, or by `cancel`.
        error: The error that the job raises at its end; None for success.
        stopped_by: The error that a cancelled job raises, as Spark does; None if it raises none.
        result: The result of a job without an error.
        jobs: All jobs that have begun.
        cancels: How often a job was cancelled.
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
