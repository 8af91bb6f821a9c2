"""How much of a step is done, by what Spark says of its tasks."""

from dataclasses import dataclass
from typing import Final, Protocol

# How much of a step the first of its Spark jobs is taken for, and each next one of what is left:
# the first reads the messages, and those behind it work on what that made of them.
FIRST_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Spark jobs that were begun, and of the last of them how many tasks are completed, of all."""

    jobs: int = 0
    completed: int = 0
    tasks: int = 0


class SparkJobs(Protocol):
    """What is known of the jobs of a Spark that does one of ours at a time; both block."""

    def begun(self) -> int:
        """How many it has begun so far."""

    def since(self, first: int) -> Begun:
        """What there is of those behind the first `first`; nothing, if Spark does not say."""


def done_within(start: float, until: float, begun: Begun) -> float:
    """The share (0 to 1) of a job that is done, in a step from `start` to `until`.

    It is never that of the step's end, as nobody knows how many Spark jobs there are to come; and
    it never falls while jobs follow each other and tasks complete.
    """
    if not begun.jobs:
        return start
    part = begun.completed / begun.tasks if begun.tasks else 0.0
    left = (1 - FIRST_SHARE) ** (begun.jobs - 1) * (1 - FIRST_SHARE * min(part, 1.0))
    return start + (until - start) * (1 - left)
