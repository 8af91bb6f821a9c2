"""How many values a message has, by their level."""

from itertools import chain
from typing import Final

# Numbers between these take few digits to be divided.
_LARGEST: Final = 1e15
_SMALLEST: Final = 1e-9


class Levels:
    """How many values a message has in each level, characters of texts, and those of names."""

    def __init__(self, value: object) -> None:
        self.values: list[int] = []
        self.numbers: list[int] = []
        self.texts: list[int] = []
        self.characters: list[int] = []
        self.names: list[int] = []
        level = [value]
        while level:
            kinds = list(map(type, level))
            texts = [each for each in level if type(each) is str] if str in kinds else []
            objects = [each for each in level if type(each) is dict] if dict in kinds else []
            lists = [each for each in level if type(each) is list] if list in kinds else []
            self.values.append(len(level))
            self.numbers.append(kinds.count(int) + kinds.count(float))
            self.texts.append(len(texts))
            self.characters.append(sum(map(len, texts)))
            self.names.append(sum(map(len, chain.from_iterable(objects))))
            level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]


def has_extremes(value: object) -> bool:
    """Whether there are numbers in `value` that take many digits to be divided."""
    level = [value]
    while level:
        floats = [abs(each) for each in level if type(each) is float and each]
        if floats and not _SMALLEST <= min(floats) <= max(floats) <= _LARGEST:
            return True
        lists = [each for each in level if type(each) is list]
        objects = [each for each in level if type(each) is dict]
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]
    return False
