"""Why a message is not what its schema asks for."""

from collections.abc import Iterable
from typing import Final

from app.domain.errors import FieldProblem

# Of one message at most so many problems are told.
PROBLEMS_MAX: Final = 10
# Values that a message quotes are cut.
QUOTED_MAX: Final = 200


class MismatchError(ValueError):
    """A value does not fit a schema: `path` leads to it, `problem` says what it must be."""

    def __init__(self, path: tuple[str | int, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem

    def reported(self) -> FieldProblem:
        """As it is told to whoever sent it."""
        return FieldProblem(path=dotted(self.path), message=self.problem)


def dotted(path: Iterable[str | int]) -> str:
    """The path as `items.0.price`; the message itself is `message`."""
    return ".".join(str(part)[:QUOTED_MAX] for part in path) or "message"
