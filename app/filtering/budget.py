"""The limit of work for checking one message for one subscription, or for its publisher."""

from typing import Final

# The limit of work for one check of a message, in units. A unit takes about 200 ns, so all units
# together take less than 10 ms.
WORK_MAX: Final = 40_000


class BodyError(ValueError):
    """The body cannot be used; the error's text has the reason."""


class ExhaustedError(BodyError):
    """The message would take more work than allowed."""

    def __init__(self) -> None:
        super().__init__(f"the message takes more than {WORK_MAX} steps of work to look at")


class PathError(ValueError):
    """A JSONPath is not valid, or not usable for this body; the error's text has the reason."""


class Budget:
    """The work that is left for checking a message.

    The unit of work is the same for all code that checks messages.
    """

    __slots__ = ("left", "parses")

    def __init__(self, work: int = WORK_MAX) -> None:
        self.left = work
        # Whether the work of parsing the body must still be subtracted. It is subtracted only once.
        self.parses = True

    def spend(self, work: int) -> None:
        """Subtract `work`.

        Raises:
            ExhaustedError: Less than `work` is left.
        """
        self.left -= work
        if self.left < 0:
            raise ExhaustedError
