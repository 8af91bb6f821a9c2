"""Computes the progress of a step from Spark's reports about its tasks."""

from dataclasses import dataclass
from typing import Final, Protocol

# The share of a step for its first Spark job. Each next Spark job gets the same share of the rest:
# the first job reads the messages, and the others use its result.
FIRST_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The number of started Spark jobs, and how far the last of them is.

    The last job has `tasks`, of which `completed` have ended.
    """

    jobs: int = 0
    completed: int = 0
    tasks: int = 0


class SparkJobs(Protocol):
    """The Spark jobs of one Angelia job. Both methods block."""

    def begun(self) -> int:
        """Return the number that the next Spark job gets.

        Spark numbers the jobs of all sessions together.
        """

    def since(self, first: int) -> Begun:
        """Return the Spark jobs from number `first` on; empty if Spark does not report them."""


def done_within(start: float, until: float, begun: Begun) -> float:
    """Return the finished share (0 to 1) of a job, in a step from `start` to `until`.

    The share never reaches `until`, because the number of further Spark jobs is unknown. The share
    never falls while Spark jobs and tasks complete.
    """
    if not begun.jobs:
        return start
    part = begun.completed / begun.tasks if begun.tasks else 0.0
    left = (1 - FIRST_SHARE) ** (begun.jobs - 1) * (1 - FIRST_SHARE * min(part, 1.0))
    return start + (until - start) * (1 - left)
