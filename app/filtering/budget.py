"""The limit of work for one message and one subscription, or its publisher."""

from typing import Final

# One unit is about 200 ns, so all of it is less than 10 ms.
WORK_MAX: Final = 40_000


class BodyError(ValueError):
    """The body cannot be used; the text has the reason."""


class ExhaustedError(BodyError):
    """The message would take more work than allowed."""

    def __init__(self) -> None:
        super().__init__(f"the message takes more than {WORK_MAX} steps of work to look at")


class PathError(ValueError):
    """A JSONPath that is not valid, or not usable for this body; the text has the reason."""


class Budget:
    """The remaining work. It is counted the same wherever a message is checked.

    Work is counted before it is done, or in steps that are small compared with the whole.
    """

    __slots__ = ("left", "parses")

    def __init__(self, work: int = WORK_MAX) -> None:
        self.left = work
        # Whether the body must still be parsed; this work is counted once.
        self.parses = True

    def spend(self, work: int) -> None:
        """Subtract `work`.

        Raises:
            ExhaustedError: Less than this is left.
        """
        self.left -= work
        if self.left < 0:
            raise ExhaustedError
