"""The cost of matching a text with a pattern of a JSON Schema, for each character.

The engine takes time in proportion to the text, with a factor that depends on the pattern. It
creates the states of a deterministic automaton when they are needed, and stores them. Patterns with
few states run at full speed. Patterns with very many states, such as `[ab]*a[ab]{20}c`, create a
state for nearly each character. So this code counts the states, by the subset construction. For
this it needs only one example of all characters that the pattern treats alike.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from app.schemas.json_schema_work import PATTERNS, PreparationWork
from app.schemas.pattern_dialect import Property, ReadablePattern, UnreadError
from app.schemas.pattern_making import making_steps, written_size

# The modules of Python's own parser of regular expressions. They are private, because Python has no
# public parser.
ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

# The time in ns for each character of a text, when a pattern with few states is matched.
FEW_STATES_NS: Final = 4
# The time in ns for each character of a text, for each part of a pattern with many states.
EACH_STATE_NS: Final = 14
# The additional time in ns for each character property in a pattern. The engine needs hundreds of
# states for one property.
PROPERTY_NS: Final = 10
# The additional time in ns for each character property, for a pattern with many states.
_PROPERTY_OF_MANY_NS: Final = 70
# If the automaton of a pattern has more states than this, the pattern counts as one with many
# states.
_STATES_MAX: Final = 2_000
# If a pattern distinguishes more characters than this, it counts as a pattern with many states.
_CHARACTERS_MAX: Final = 100
# The work for counting the states of all patterns of a schema, in steps of about 300 ns. If too
# little is left for a pattern, the pattern counts as one with many states.
STEPS_MAX: Final = 150_000
# The steps of work to parse a pattern, for each of its characters.
_PARSED_STEPS: Final = 6
# The steps of work to create a test of a character.
_TESTED_STEPS: Final = 100
# The maximum number of parts of a pattern. A repeated part counts once for each repetition.
_PARTS_MAX: Final = 5_000
# The number of parts that is assumed for a pattern that cannot be parsed.
_UNREAD_PARTS: Final = 1_000

_CATEGORIES: Final = "aA0 _é-\n\u0416"


class PatternPrices:
    """The costs of matching with each pattern of one schema."""

    def __init__(self, work: PreparationWork | None = None) -> None:
        self._work = work or PreparationWork({})
        self._left = STEPS_MAX
        self._known: dict[str, int] = {}

    def of(self, pattern: str, at: object = None) -> int:
        """Return the cost of matching one character of a text with the pattern, in ns.

        Raises:
            ValidationFailedError: All patterns together take the engine too long. The error names
                the part `at` of the schema, where this pattern is.
        """
        if pattern not in self._known:
            self._known[pattern] = self._price(pattern, at)
        return self._known[pattern]

    def _price(self, pattern: str, at: object) -> int:
        self._work.spend(making_steps(pattern), PATTERNS, at=at)
        automaton = _Automaton(self._left // 2)
        try:
            has_few = automaton.has_few_states(*automaton.read(pattern))
        except (UnreadError, re.error, RecursionError, OverflowError, ValueError):
            return EACH_STATE_NS * int(min(_UNREAD_PARTS, written_size(pattern).parts))
        finally:
            self._left -= automaton.spent
        if not has_few:
            of_parts = EACH_STATE_NS * len(automaton.tests)
            return of_parts + _PROPERTY_OF_MANY_NS * automaton.properties
        return FEW_STATES_NS + PROPERTY_NS * automaton.properties


class _Automaton:
    """A nondeterministic automaton: the parts of a pattern, and which parts follow each of them."""

    def __init__(self, steps_max: float) -> None:
        self.spent = 0
        self._steps_max = steps_max
        # For each part of the pattern, the test that a character must pass to leave this part. None
        # means that there is no test.
        self.tests: list[Any] = []
        # For each part of the pattern, the parts that can follow it.
        self.ways: list[list[int]] = []
        # The number of tests for character properties in the pattern.
        self.properties = 0
        self._characters: set[str] = set(_CATEGORIES)
        self._compiled: dict[str, Any] = {}
        self._flags = re.DOTALL | re.ASCII
        self._begins_anywhere = True
        # Whether a match may end before the end of the text. Then all characters after the match
        # are ignored.
        self._ends_anywhere = True

    def read(self, given: str) -> tuple[int, int]:
        """Parse a pattern; return the numbers of its first and its last part.

        Raises:
            UnreadError: The pattern has parts that this code does not know.
            re.error: The pattern is not valid.
        """
        self._spend(_PARSED_STEPS * len(given))
        pattern = self._pattern = ReadablePattern(given)
        self._characters.update(pattern.distinguished())
        parsed = parser.parse(pattern.text)
        flags = parsed.state.flags & ~re.UNICODE
        if flags & ~_FLAGS or (flags & re.IGNORECASE and not _is_simple(pattern.text)):
            raise UnreadError
        self._flags |= flags
        start, items = self._part(), list(parsed)
        is_held = items and items[0] in _BEGINNINGS and not flags & re.MULTILINE
        self._begins_anywhere = not is_held
        return start, self._sequence(items, start)

    def has_few_states(self, start: int, end: int) -> bool:
        """Return whether the automaton has few states. False if not all states could be counted."""
        if len(self._characters) > _CHARACTERS_MAX:
            return False
        try:
            return self._count_states(start, end) <= _STATES_MAX
        except UnreadError:
            return False

    def _count_states(self, start: int, end: int) -> int:
        characters = sorted(self._characters)
        first = self._reached([start])
        again = [start] if self._begins_anywhere else []
        seen, waiting = {first}, [first]
        while waiting and len(seen) <= _STATES_MAX:
            state = waiting.pop()
            tested = [part for part in state if self.tests[part] is not None]
            for character in characters:
                self._spend(1 + len(tested))
                to = [self.ways[part][0] for part in tested if self.tests[part](character)]
                found = self._reached([*again, *to])
                is_over = self._ends_anywhere and end in found
                if not is_over and found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return len(seen)

    def _spend(self, steps: int) -> None:
        self.spent += steps
        if self.spent > self._steps_max:
            raise UnreadError

    def _reached(self, parts: Iterable[int]) -> frozenset[int]:
        found = set(parts)
        waiting = list(found)
        while waiting:
            part = waiting.pop()
            if self.tests[part] is None:
                self._spend(1 + len(self.ways[part]))
                new = [each for each in self.ways[part] if each not in found]
                found.update(new)
                waiting += new
        return frozenset(found)

    def _part(self, test: Any = None) -> int:  # noqa: ANN401 - a function or None
        if len(self.tests) == _PARTS_MAX:
            raise UnreadError
        self._spend(2)
        self.tests.append(test)
        self.ways.append([])
        return len(self.tests) - 1

    def _sequence(self, items: Iterable[Any], at: int) -> int:
        for kind, given in items:
            at = self._item(kind, given, at)
        return at

    def _item(self, kind: Any, given: Any, at: int) -> int:  # noqa: ANN401 - the parser has no types
        if kind is ops.SUBPATTERN:
            if given[1] or given[2]:
                # A pattern with flags for only a part of it is not supported here.
                raise UnreadError
            return self._sequence(given[3], at)
        if kind is ops.BRANCH:
            return self._joined([self._sequence(each, at) for each in given[1]])
        if kind in {ops.MAX_REPEAT, ops.MIN_REPEAT}:
            return self._repeated(given, at)
        if kind is ops.AT:
            # A condition on the position (such as `^` or `\b`) is ignored: it counts as both met
            # and not met.
            self._ends_anywhere = False
            return at
        tested = self._part(self._test(kind, given))
        self.ways[at].append(tested)
        after = self._part()
        self.ways[tested].append(after)
        return after

    def _repeated(self, given: Any, at: int) -> int:  # noqa: ANN401 - the parser has no types
        least, most, items = given
        for _ in range(least):
            self._spend(1)
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

    def _test(self, kind: Any, given: Any) -> Any:  # noqa: ANN401 - the parser has no types
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
        others = self._tested(text) if text else None
        if not properties and not is_outside:
            return others

        def is_met(character: str) -> bool:
            is_in = any(each.has(character) for each in properties)
            return (is_in or bool(others and others(character))) is not is_outside

        return is_met

    def _tested(self, text: str) -> Any:  # noqa: ANN401 - a method of a compiled pattern
        if text not in self._compiled:
            self._spend(_TESTED_STEPS)
            self._compiled[text] = re.compile(f"[{text}]", self._flags).match
        return self._compiled[text]


def _is_simple(text: str) -> bool:
    """Whether a match of the text that ignores case can be judged here: it must be ASCII."""
    return text.isascii() and "\\u" not in text.lower()


def _members(kind: Any, given: Any) -> Iterable[Any]:  # noqa: ANN401 - the parser has no types
    """Return the conditions of a test of a character, as Python's parser names them."""
    if kind is ops.IN:
        return list(given)
    if kind is ops.NOT_LITERAL:
        return [(ops.NEGATE, None), (ops.LITERAL, given)]
    return [(kind, given)]


def _named(kind: Any, given: Any) -> Iterator[str]:  # noqa: ANN401 - the parser has no types
    """Yield the characters in a part of a character class: a character, or the ends of a range."""
    if kind is ops.LITERAL:
        yield chr(given)
    elif kind is ops.RANGE:
        yield from map(chr, given)


def _written(kind: Any, given: Any) -> str:  # noqa: ANN401 - the parser has no types
    """Return a condition on a character as text for a character class (`[…]`).

    Raises:
        UnreadError: The condition cannot be a part of a character class.
    """
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
