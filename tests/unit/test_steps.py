"""How far a job is within a step, by what Spark says of its tasks."""

from datetime import timedelta

import pytest

from spark.steps import Begun, done_within
from spark.work import WorkProgress, WorkStoppedError


class Told:
    """A Spark that says what it is told to, of the jobs since it was last asked to begin."""

    def __init__(self) -> None:
        self.jobs = 0
        self.last = (0, 0)
        self.asked_from: list[int] = []

    def begun(self) -> int:
        return self.jobs

    def since(self, first: int) -> Begun:
        self.asked_from.append(first)
        completed, tasks = self.last
        return Begun(jobs=self.jobs - first, completed=completed, tasks=tasks)


@pytest.mark.parametrize(
    ("jobs", "completed", "tasks", "done"),
    [
        (0, 0, 0, 0.2),
        # It is begun, and nobody knows its tasks.
        (1, 0, 0, 0.2),
        (1, 0, 4, 0.2),
        (1, 1, 4, 0.2 + 0.4 * 0.9 / 4),
        (1, 4, 4, 0.2 + 0.4 * 0.9),
        (2, 0, 4, 0.2 + 0.4 * 0.9),
        (2, 2, 4, 0.2 + 0.4 * (0.9 + 0.1 * 0.9 / 2)),
        # Tasks that were lost with their machine are done again.
        (1, 5, 4, 0.2 + 0.4 * 0.9),
    ],
)
def test_the_first_spark_job_of_a_step_is_most_of_it_and_each_next_one_of_what_is_left(
    jobs: int, completed: int, tasks: int, done: float
) -> None:
    begun = Begun(jobs=jobs, completed=completed, tasks=tasks)
    assert done_within(0.2, 0.6, begun) == pytest.approx(done)


def test_a_step_is_never_done_before_its_end_and_never_less_than_before() -> None:
    each = [Begun(jobs=n, completed=m, tasks=3) for n in range(1, 8) for m in range(4)]
    found = [done_within(0.2, 0.6, begun) for begun in each]
    assert found == sorted(found)
    assert found[0] == pytest.approx(0.2)
    assert found[-1] < 0.6


def test_a_job_is_as_far_as_its_step_and_its_tasks_say() -> None:
    spark, progress = Told(), WorkProgress()
    progress.watch(spark)
    spark.jobs = 7
    progress.step("reading", done=0.1, until=0.5)
    progress.look()
    assert progress.now().done == pytest.approx(0.1)
    spark.jobs, spark.last = 8, (1, 2)
    progress.look()
    assert progress.now().done == pytest.approx(0.1 + 0.4 * 0.45)
    # A stage that is done again takes nothing back.
    spark.last = (0, 2)
    progress.look()
    assert progress.now().done == pytest.approx(0.1 + 0.4 * 0.45)
    progress.step("writing", done=0.5, until=0.9)
    progress.look()
    assert (progress.now().step, progress.now().done) == ("writing", 0.5)
    # Of each step only what was begun in it.
    assert spark.asked_from == [7, 7, 7, 8]


def test_a_job_that_is_not_on_spark_is_as_far_as_its_step() -> None:
    progress = WorkProgress()
    progress.step("waiting", done=0.3, until=0.4)
    progress.look()
    assert progress.now().done == 0.3
    progress.stop()
    with pytest.raises(WorkStoppedError):
        progress.step("reading", done=0.4, until=1.0)
    with pytest.raises(WorkStoppedError):
        progress.rest(timedelta(seconds=1))
