"""The errors with which a command ends if it cannot do what was requested.

::

    CliError                    an error to show to people, with the command's exit code
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeVar

from app.domain.errors import FieldProblem

E = TypeVar("E", bound=Exception)


class Exit(IntEnum):
    """Exit codes; 0 is success, and 2 means wrong usage (from typer)."""

    FAILED = 1
    UNREACHABLE = 3
    NOT_FOUND = 4
    DENIED = 5


class CliError(Exception):
    """An error to show to the user: `message`, the wrong fields, and what to do next."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: Sequence[FieldProblem] = (),
        exit_code: Exit = Exit.FAILED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)
        self.exit_code = exit_code


def leaves(group: BaseExceptionGroup[E]) -> Iterator[E]:
    """Yield the errors of a group and of its inner groups, in order."""
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from leaves(each)
        else:
            yield each
