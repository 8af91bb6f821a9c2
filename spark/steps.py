"""Computes how much of a job's step is finished, from Spark's reports about its tasks."""

from dataclasses import dataclass
from typing import Final, Protocol

# The part of a step that counts as finished after its first Spark job. Each further Spark job
# finishes the same part of what is left. The first Spark job is the longest, because it reads the
# messages, and the later Spark jobs use its result.
FIRST_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The Spark jobs that were started for a step, and the progress of the last one.

    Attributes:
        jobs: The number of started Spark jobs.
        completed: The number of tasks of the last Spark job that have ended.
        tasks: The number of all tasks of the last Spark job.
    """

    jobs: int = 0
    completed: int = 0
    tasks: int = 0


class SparkJobs(Protocol):
    """The Spark jobs that Spark runs for one job of Angelia. Both methods block."""

    def begun(self) -> int:
        """Return the number that the next Spark job gets.

        Spark numbers the Spark jobs of all sessions together.
        """

    def since(self, first: int) -> Begun:
        """Return the Spark jobs from number `first` on. Empty if Spark reports none."""


def done_within(start: float, until: float, begun: Begun) -> float:
    """Return which part of a whole job is finished, from 0 to 1.

    The current step begins when the part `start` of the job is finished, and ends at the part
    `until`. The result is always below `until`, because nobody knows how many Spark jobs will
    follow in the step. It never falls while Spark jobs and tasks end.
    """
    if not begun.jobs:
        return start
    part = begun.completed / begun.tasks if begun.tasks else 0.0
    left = (1 - FIRST_SHARE) ** (begun.jobs - 1) * (1 - FIRST_SHARE * min(part, 1.0))
    return start + (until - start) * (1 - left)
