"""What it costs to match a text against a pattern of a JSON Schema, for each of its characters.

The engine is linear in the text, with a factor: it makes a state of a deterministic automaton at a
time, and keeps them. Patterns that have few states run at full speed; those that have very many,
as `[ab]*a[ab]{20}c`, make one for nearly each character. So the states are counted here, by the
subset construction, over one character of each kind that the pattern tells apart.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from app.schemata.pattern_dialect import Property, ReadablePattern, UnreadError, written_length

# Python's own, by whose reading of a pattern its states are found; there is no other.
ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

# ns for each character: of a pattern with few states, and for each state of one with many.
FEW_STATES_NS: Final = 4
EACH_STATE_NS: Final = 14
# And for each property of characters: the engine has hundreds of states for one.
PROPERTY_NS: Final = 10
_PROPERTY_OF_MANY_NS: Final = 70
# States of an automaton that are few; characters that are told apart, and what a test of one is.
_STATES_MAX: Final = 2_000
_CHARACTERS_MAX: Final = 100
# Moves that are followed for all patterns of a schema, a few hundred ns each.
MOVES_MAX: Final = 50_000
# Parts of a pattern, once its repetitions are written out.
_PARTS_MAX: Final = 5_000
# A pattern that cannot be read here is taken for one of at most so many parts.
_UNREAD_PARTS: Final = 1_000

_CATEGORIES: Final = "aA0 _é-\n\u0416"


class PatternPrices:
    """Prices of the patterns of one schema; `moves` is what may still be followed for them."""

    def __init__(self) -> None:
        self._moves = MOVES_MAX
        self._known: dict[str, int] = {}

    def of(self, pattern: str) -> int:
        """The ns that a character of a text costs."""
        if pattern not in self._known:
            self._known[pattern] = self._price(pattern)
        return self._known[pattern]

    def _price(self, pattern: str) -> int:
        automaton = _Automaton()
        try:
            start, end = automaton.read(ReadablePattern(pattern))
        except (UnreadError, re.error, RecursionError, OverflowError, ValueError):
            return EACH_STATE_NS * min(_UNREAD_PARTS, written_length(pattern))
        spent = automaton.moves_if_few_states(start, end, self._moves)
        if spent is None:
            self._moves //= 2
            of_parts = EACH_STATE_NS * len(automaton.tests)
            return of_parts + _PROPERTY_OF_MANY_NS * automaton.properties
        self._moves -= spent
        return FEW_STATES_NS + PROPERTY_NS * automaton.properties


class _Automaton:
    """A nondeterministic automaton: its parts, and what leads from each to others."""

    def __init__(self) -> None:
        # Of each part the test of a character, and where it leads; None: it leads on without one.
        self.tests: list[Any] = []
        self.ways: list[list[int]] = []
        # How many tests ask for properties of characters.
        self.properties = 0
        self._characters: set[str] = set(_CATEGORIES)
        self._flags = re.DOTALL | re.ASCII
        self._begins_anywhere = True
        # Whether a text is looked at no further once the last part is reached.
        self._ends_anywhere = True

    def read(self, pattern: ReadablePattern) -> tuple[int, int]:
        """Its first part and its last one; UnreadError, re.error."""
        self._pattern = pattern
        self._characters.update(pattern.told_apart())
        parsed = parser.parse(pattern.text)
        flags = parsed.state.flags & ~re.UNICODE
        if flags & ~_FLAGS or (flags & re.IGNORECASE and not _is_simple(pattern.text)):
            raise UnreadError
        self._flags |= flags
        start, items = self._part(), list(parsed)
        is_held = items and items[0] in _BEGINNINGS and not flags & re.MULTILINE
        self._begins_anywhere = not is_held
        return start, self._sequence(items, start)

    def moves_if_few_states(self, start: int, end: int, moves_max: int) -> int | None:
        """The moves that it took to find all states; None: they are many."""
        characters = sorted(self._characters)
        if len(characters) > _CHARACTERS_MAX:
            return None
        first = self._reached([start])
        again = [start] if self._begins_anywhere else []
        seen, waiting, moves = {first}, [first], 0
        while waiting:
            state = waiting.pop()
            tested = [part for part in state if self.tests[part] is not None]
            for character in characters:
                moves += 1 + len(tested)
                to = [self.ways[part][0] for part in tested if self.tests[part](character)]
                found = self._reached([*again, *to])
                is_over = self._ends_anywhere and end in found
                if not is_over and found not in seen:
                    seen.add(found)
                    waiting.append(found)
            if len(seen) > _STATES_MAX or moves > moves_max:
                return None
        return moves

    def _reached(self, parts: Iterable[int]) -> frozenset[int]:
        found = set(parts)
        waiting = list(found)
        while waiting:
            part = waiting.pop()
            if self.tests[part] is None:
                new = [each for each in self.ways[part] if each not in found]
                found.update(new)
                waiting += new
        return frozenset(found)

    def _part(self, test: Any = None) -> int:  # noqa: ANN401 - a function or None
        if len(self.tests) == _PARTS_MAX:
            raise UnreadError
        self.tests.append(test)
        self.ways.append([])
        return len(self.tests) - 1

    def _sequence(self, items: Iterable[Any], at: int) -> int:
        for kind, given in items:
            at = self._item(kind, given, at)
        return at

    def _item(self, kind: Any, given: Any, at: int) -> int:  # noqa: ANN401 - the parser's
        if kind is ops.SUBPATTERN:
            if given[1] or given[2]:
                # Flags for a part of the pattern.
                raise UnreadError
            return self._sequence(given[3], at)
        if kind is ops.BRANCH:
            return self._joined([self._sequence(each, at) for each in given[1]])
        if kind in {ops.MAX_REPEAT, ops.MIN_REPEAT}:
            return self._repeated(given, at)
        if kind is ops.AT:
            # Of what it asks for nothing is known: it holds, or the text goes on.
            self._ends_anywhere = False
            return at
        tested = self._part(self._test(kind, given))
        self.ways[at].append(tested)
        after = self._part()
        self.ways[tested].append(after)
        return after

    def _repeated(self, given: Any, at: int) -> int:  # noqa: ANN401 - the parser's
        least, most, items = given
        for _ in range(least):
            at = self._sequence(items, at)
        if most is ops.MAXREPEAT:
            loop, end = self._part(), self._part()
            self.ways[at].append(loop)
            self.ways[self._sequence(items, loop)].append(loop)
            self.ways[loop].append(end)
            return end
        ends = [at]
        for _ in range(most - least):
            at = self._sequence(items, self._joined([at]))
            ends.append(at)
        return self._joined(ends)

    def _joined(self, ends: Iterable[int]) -> int:
        joined = self._part()
        for end in ends:
            self.ways[end].append(joined)
        return joined

    def _test(self, kind: Any, given: Any) -> Any:  # noqa: ANN401 - the parser's
        if kind is ops.ANY:
            return re.compile(".", self._flags).match
        items = list(_members(kind, given))
        is_outside = (ops.NEGATE, None) in items
        properties, text = list[Property](), ""
        for each in items:
            found = self._pattern.of_mark(each[1]) if each[0] is ops.LITERAL else None
            if found is not None:
                properties.append(found)
            else:
                self._characters.update(_named(*each))
                text += _written(*each)
        self.properties += bool(properties)
        others = re.compile(f"[{text}]", self._flags).match if text else None
        if not properties and not is_outside:
            return others

        def is_met(character: str) -> bool:
            is_in = any(each.has(character) for each in properties)
            return (is_in or bool(others and others(character))) is not is_outside

        return is_met


def _is_simple(text: str) -> bool:
    """Whether it can be said of its characters which are the same but for their case."""
    return text.isascii() and "\\u" not in text.lower()


def _members(kind: Any, given: Any) -> Iterable[Any]:  # noqa: ANN401 - the parser's
    """What the test of a character is made of."""
    if kind is ops.IN:
        return list(given)
    if kind is ops.NOT_LITERAL:
        return [(ops.NEGATE, None), (ops.LITERAL, given)]
    return [(kind, given)]


def _named(kind: Any, given: Any) -> Iterator[str]:  # noqa: ANN401 - the parser's
    """The characters at which the test of a character may change."""
    if kind is ops.LITERAL:
        yield chr(given)
    elif kind is ops.RANGE:
        yield from map(chr, given)


def _written(kind: Any, given: Any) -> str:  # noqa: ANN401 - the parser's
    """As a part of a class of characters; UnreadError if it is none."""
    if kind is ops.NEGATE:
        return ""
    if kind is ops.LITERAL:
        return _escaped(given)
    if kind is ops.RANGE:
        return f"{_escaped(given[0])}-{_escaped(given[1])}"
    if kind is not ops.CATEGORY or given not in _CATEGORY:
        raise UnreadError
    return _CATEGORY[given]


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


_FLAGS: Final = re.IGNORECASE | re.DOTALL | re.MULTILINE
_BEGINNINGS: Final = ((ops.AT, ops.AT_BEGINNING), (ops.AT, ops.AT_BEGINNING_STRING))
_CATEGORY: Final = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}
