"""How much work it may take to look at one message for one subscription, or for its publisher."""

from typing import Final

# One is about 200 ns: all of it is less than 10 ms.
WORK_MAX: Final = 40_000


class BodyError(ValueError):
    """The body cannot be looked at; the message says why."""


class ExhaustedError(BodyError):
    """To look at the message takes more work than it may."""

    def __init__(self) -> None:
        super().__init__(f"the message takes more than {WORK_MAX} steps of work to look at")


class PathError(ValueError):
    """A JSONPath that cannot be used, or not on this body; the message says why."""


class Budget:
    """What is left of the work. It counts the same wherever a message is looked at.

    Work is counted before it is done, or in pieces that are small beside the whole.
    """

    __slots__ = ("left", "parses")

    def __init__(self, work: int = WORK_MAX) -> None:
        self.left = work
        # Whether the body is still to be parsed; the work of that is spent once.
        self.parses = True

    def spend(self, work: int) -> None:
        """Take `work` off; ExhaustedError when that is more than is left."""
        self.left -= work
        if self.left < 0:
            raise ExhaustedError
