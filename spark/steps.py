"""Computes how much of a job's step is finished, from Spark's reports about its tasks."""

from dataclasses import dataclass
from typing import Final, Protocol

# The part of a step that is finished after its first Spark job. Each further Spark job finishes the
# same part of the rest. The first Spark job is the longest, because it reads the messages, and the
# others use its result.
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

        Spark numbers the jobs of all sessions together.
        """

    def since(self, first: int) -> Begun:
        """Return the Spark jobs from number `first` on; empty if Spark does not report them."""


def done_within(start: float, until: float, begun: Begun) -> float:
    """Return which part of a job is finished (0 to 1), in a step from `start` to `until`.

    The result is always below `until`, because nobody knows how many Spark jobs will follow. It
    never falls while Spark jobs and tasks complete.
    """
    if not begun.jobs:
        return start
    part = begun.completed / begun.tasks if begun.tasks else 0.0
    left = (1 - FIRST_SHARE) ** (begun.jobs - 1) * (1 - FIRST_SHARE * min(part, 1.0))
    return start + (until - start) * (1 - left)
