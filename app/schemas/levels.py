"""Counts the values in a message by level."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

# Numbers above the first limit or below the second one take long to be divided (multipleOf).
_LARGEST: Final = 1e15
_SMALLEST: Final = 1e-9


class Levels:
    """How many values, numbers and texts a message has at each level of nesting.

    The characters of texts and of members' names are counted for each level, too.
    """

    def __init__(self, value: object) -> None:
        self.values: list[int] = []
        self.numbers: list[int] = []
        self.texts: list[int] = []
        self.characters: list[int] = []
        self.names: list[int] = []
        for level, objects in _levels(value):
            kinds = list(map(type, level))
            texts = [each for each in level if type(each) is str] if str in kinds else []
            self.values.append(len(level))
            self.numbers.append(kinds.count(int) + kinds.count(float))
            self.texts.append(len(texts))
            self.characters.append(sum(map(len, texts)))
            self.names.append(sum(map(len, chain.from_iterable(objects))))


def has_extremes(value: object) -> bool:
    """Whether `value` has very large or very small numbers, which take long to be divided."""
    for level, _ in _levels(value):
        floats = [abs(each) for each in level if type(each) is float and each]
        if floats and not _SMALLEST <= min(floats) <= max(floats) <= _LARGEST:
            return True
    return False


def _levels(value: object) -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
    """Yield, for each level of `value`, all values and those that are objects."""
    level = [value]
    while level:
        objects = [each for each in level if type(each) is dict]
        lists = [each for each in level if type(each) is list]
        yield level, objects
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]
