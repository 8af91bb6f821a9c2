"""Values that a setting cannot have, by what kind of setting it is, and what is said of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NO_SCALARS: Final[Sequence[object]] = ([], {})
NO_NUMBERS: Final[Sequence[object]] = ("x", True, [], {}, [1])
NO_STRINGS: Final[Sequence[object]] = (7, True, [], {})
NO_OBJECTS: Final[Sequence[object]] = (True, [], [{}])
NO_LISTS: Final[Sequence[object]] = (True, {})


class Wrong(NamedTuple):
    """A value, and what the answer must say of it."""

    value: object
    says: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: values that it refuses, and the object that holds it, where it needs more."""

    wrong: Sequence[Wrong]
    beside: dict[str, Any] = field(default_factory=dict)
    # Null is a value here, and not the default.
    required: bool = False


def wrong(says: str | Sequence[str], *values: object) -> list[Wrong]:
    words = (says,) if isinstance(says, str) else says
    return [Wrong(value, words) for value in values]


def number(low: int, high: int, *, whole: bool = True) -> list[Wrong]:
    span = f"{low} to {high}"
    kind, broken = ("whole number", [low + 0.5]) if whole else ("number", [])
    return [
        *wrong(f"must be {span}", low - 1, high + 1, -(10**15), 10**15),
        *wrong(span, -(10**40), 10**40),
        *wrong((kind, span), str(low), *NO_NUMBERS, *broken),
    ]


def choice(*values: str) -> list[Wrong]:
    return wrong(values, values[0].lower(), "", "UNKNOWN", [values[0]], *NO_STRINGS)


def flag() -> list[Wrong]:
    return wrong("must be true or false", "true", "", 0, 1, *NO_SCALARS)


def text(low: int, high: int) -> list[Wrong]:
    empty = wrong(str(low), "") if low else []
    return [
        *wrong("must be a string", *NO_STRINGS),
        *wrong(str(high), "x" * (high + 1)),
        *empty,
        *wrong("zero", "x\0"),
    ]


def words(says: str, *values: str) -> list[Wrong]:
    """A string of a form of its own."""
    return [*wrong("must be a string", *NO_STRINGS), *wrong(says, *values)]


def moments(*values: str) -> list[Wrong]:
    return [
        *wrong("must be a string", 7.5, *NO_STRINGS[1:]),
        *wrong("must be a time like", -7, *values),
    ]


def objects() -> list[Wrong]:
    return wrong("must be an object", 7, "x", *NO_OBJECTS)


def lists(most: int, item: object) -> list[Wrong]:
    return [
        *wrong("must be a list", 7, "x", *NO_LISTS),
        *wrong(str(most), [item] * (most + 1)),
    ]
