"""The progress of a step, from Spark's reports about its tasks."""

from dataclasses import dataclass
from typing import Final, Protocol

# The first of a step's Spark jobs counts for this share, and each next one for the same share of
# the rest: the first reads the messages, and the others use its result.
FIRST_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The number of started Spark jobs, and the completed and total tasks of the last one."""

    jobs: int = 0
    completed: int = 0
    tasks: int = 0


class SparkJobs(Protocol):
    """The jobs of a Spark session that runs one Angelia job at a time; both methods block."""

    def begun(self) -> int:
        """Return how many it has started so far."""

    def since(self, first: int) -> Begun:
        """Return those after the first `first`; empty if Spark does not report them."""


def done_within(start: float, until: float, begun: Begun) -> float:
    """Return the finished share (0 to 1) of a job, in a step from `start` to `until`.

    It never reaches the end of the step, because the number of further Spark jobs is unknown; it
    never falls while jobs and tasks complete.
    """
    if not begun.jobs:
        return start
    part = begun.completed / begun.tasks if begun.tasks else 0.0
    left = (1 - FIRST_SHARE) ** (begun.jobs - 1) * (1 - FIRST_SHARE * min(part, 1.0))
    return start + (until - start) * (1 - left)
