"""Limits the work of preparing a JSON Schema, because a small schema could take all memory.

Work is counted in steps of about a microsecond. It is counted before the engine gets the schema,
because the engine's work cannot be stopped.
"""

from collections.abc import Iterator
from typing import Any, Final

from app.domain.errors import ValidationFailedError

# The maximum number of steps for one schema. A usual schema of 128 KiB takes about half of them.
STEPS_MAX: Final = 200_000

BRANCHES: Final = (
    "has subschemas that lead to the same ones in too many ways: have fewer branches (allOf, anyOf,"
    " oneOf, if, $ref), or fewer unevaluatedProperties and unevaluatedItems above them"
)
TOO_OFTEN: Final = "looks at one place more often than any message may take"
TOO_MANY_KINDS: Final = (
    "leads to too many kinds of places: have fewer members and items, or fewer that refer back to"
    " the subschemas above them"
)
PATTERNS: Final = (
    "has patterns that take too much work: have fewer or shorter ones, with fewer repetitions of"
    r" \p, \w and the like"
)
_NAME_MAX: Final = 60
_POINTER_MAX: Final = 300


class PreparationWork:
    """The steps of work that are left for preparing one schema."""

    def __init__(self, root: object, steps: float = STEPS_MAX) -> None:
        self._root = root
        self.left = steps

    def spend(self, steps: float, problem: str, *, at: object) -> None:
        """Subtract the steps for the part `at` of the schema.

        Raises:
            ValidationFailedError: Too few steps are left; the error has the text `problem`.
        """
        self.left -= steps
        if self.left < 0:
            raise self.refused(problem, at=at)

    def refused(self, problem: str, *, at: object) -> ValidationFailedError:
        """Return an error with the text `problem`, about the part `at` of the schema."""
        return refused(f"{problem} (at {pointer_to(at, self._root)})")


def refused(problem: str) -> ValidationFailedError:
    """Return an error with the text `problem`, about the whole schema."""
    return ValidationFailedError.of("schema", problem)


def pointer_to(part: object, root: object) -> str:
    """Return where `part` is in `root`, as a JSON pointer."""
    waiting: list[tuple[object, str]] = [(root, "#")]
    while waiting:
        found, pointer = waiting.pop()
        if found is part:
            return pointer
        waiting += ((each, _cut(f"{pointer}/{name}")) for name, each in _below(found))
    return "#"


def _cut(pointer: str) -> str:
    # A long pointer is cut, because in a schema with many levels, each part has a long pointer.
    return pointer if len(pointer) <= _POINTER_MAX else f"{pointer[:_POINTER_MAX]}…"


def _below(found: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401 - JSON can have any type
    if isinstance(found, dict):
        for name, each in found.items():
            short = name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}…"
            yield short.replace("~", "~0").replace("/", "~1"), each
    elif isinstance(found, list):
        yield from ((str(at), each) for at, each in enumerate(found))
