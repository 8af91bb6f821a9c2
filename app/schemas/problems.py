"""Describes why a message does not match its schema."""

from collections.abc import Iterable
from typing import Final

from app.domain.errors import FieldProblem

# The maximum number of problems that are reported for one message.
PROBLEMS_MAX: Final = 10
# The maximum length of a value or a name that an error message quotes. Longer ones are cut.
QUOTED_MAX: Final = 200


class MismatchError(ValueError):
    """A value does not match a schema.

    `path` leads to the value. `problem` says what is wrong with the value.
    """

    def __init__(self, path: tuple[str | int, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem

    def reported(self) -> FieldProblem:
        """Return the problem in the form in which the publisher gets it."""
        return FieldProblem(path=dotted(self.path), message=self.problem)


class AvroError(ValueError):
    """The bytes are not a message of the schema."""


def dotted(path: Iterable[str | int]) -> str:
    """Return a path as text, such as `items.0.price`.

    An empty path means the message itself. Its text is `message`.
    """
    return ".".join(str(part)[:QUOTED_MAX] for part in path) or "message"
