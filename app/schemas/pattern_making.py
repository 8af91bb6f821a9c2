r"""The cost of preparing a pattern of a JSON Schema in the engine, in steps of a microsecond.

For each class such as `\w`, the engine parses the pattern again, to convert the class from
ECMA-262. For a character property such as `\p{L}`, the engine creates hundreds of parts. The costs
were measured with the slowest patterns that are known.
"""

import re
from typing import Final, NamedTuple

# The steps of work to prepare a pattern, for each of its characters.
_CHARACTER_STEPS: Final = 1.5
# The additional steps for each character of a pattern. They are multiplied by the number of classes
# (such as `\w`) in the pattern.
_CLASS_STEPS: Final = 0.7
# The steps for a part of a pattern that accepts only one character.
_PART_STEPS: Final = 1.0
# The steps for a part of a pattern that accepts many characters, such as `.` or `\w`.
_WIDE_STEPS: Final = 6.0
# The steps for a part that accepts all characters with a property, such as all letters.
_PROPERTY_STEPS: Final = 800.0
# The maximum number of steps for creating the parts of a pattern. There are never more, because the
# engine refuses a pattern with too many parts.
_PARTS_STEPS_MAX: Final = 20_000.0
# The steps for one range of characters, or one character property, in a pattern that ignores case.
# The engine finds the upper and lower case of all these characters.
_FOLDED_STEPS: Final = 3_000

_CLASSES: Final = re.compile(r"\\[wWdDsS]")
_FOLDING: Final = re.compile(r"\(\?[a-zA-Z]*i")
_WIDE: Final = re.compile(r"\\[uUxpP]")
_FOLDED: Final = re.compile(r"-|\\[pP]")
_TOKEN: Final = re.compile(
    r"(?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:))?)|(?P<close>\))"
    r"|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}|(?P<free>[*+?|])"
    r"|(?P<property>\\[pP](?:\{[^}]*\}|.)|\[(?:\\[^pP]|[^]\\])*\\[pP](?:\\.|[^]\\])*\])"
    r"|\[(?!\^)[^]\\\x80-\U0010ffff]*\]|(?P<wide>\.|\\[wWdDsS]|\[(?:\\.|[^]\\])*\])|\\.|.",
    re.DOTALL,
)
# This text is added to a pattern, and closes brackets that are still open. Without it, the search
# for each missing closing bracket would go to the end of the pattern again.
_ENDS: Final = "]]}>"
# The largest number of parts or steps. Any larger number counts as this number.
_SIZE_MAX: Final = 1e18


class PatternSize(NamedTuple):
    """The number of parts of a pattern, and the steps of work to create these parts.

    A repeated part counts once for each repetition.
    """

    parts: float
    steps: float

    def and_(self, other: "PatternSize") -> "PatternSize":
        """Return the sum of this size and another one."""
        return PatternSize(self.parts + other.parts, self.steps + other.steps)

    def times(self, count: int) -> "PatternSize":
        """Return the size of this part if it is repeated `count` times."""
        return PatternSize(
            min(float(self.parts * count), _SIZE_MAX), min(self.steps * count, _SIZE_MAX)
        )


_EMPTY: Final = PatternSize(0, 0)
_PLAIN: Final = PatternSize(1, _PART_STEPS)
_OF_KIND: Final = {
    "wide": PatternSize(1, _WIDE_STEPS),
    "property": PatternSize(1, _PROPERTY_STEPS),
}


def making_steps(pattern: str) -> float:
    """Return the most that preparing the pattern can cost, in steps."""
    read = len(pattern) * (_CHARACTER_STEPS + _CLASS_STEPS * len(_CLASSES.findall(pattern)))
    if _FOLDING.search(pattern) and (not pattern.isascii() or _WIDE.search(pattern)):
        read += _FOLDED_STEPS * len(_FOLDED.findall(pattern))
    return read + min(written_size(pattern).steps, _PARTS_STEPS_MAX)


def written_size(pattern: str) -> PatternSize:
    """Return the size of a pattern, estimated without parsing it."""
    outer, last = list[PatternSize](), _EMPTY
    size = _EMPTY
    for found in _TOKEN.finditer(pattern + _ENDS):
        if found.start() >= len(pattern):
            break
        kind = found.lastgroup
        if kind == "open":
            outer.append(size)
            size, last = _EMPTY, _EMPTY
        elif kind == "close":
            last, size = size, (outer.pop() if outer else _EMPTY).and_(size)
        elif found["least"]:
            least, most = int(found["least"]), found["most"]
            # A repetition without a maximum, such as `{3,}`, has one more part, which repeats
            # itself.
            count = least if most is None else int(most or least + 1)
            size, last = size.and_(last.times(max(count - 1, 0))), last.times(max(count, 1))
        elif kind == "free":
            # `*`, `+`, `?` and `|` count like a character of the pattern. If the group around them
            # is repeated, they are repeated too.
            size = size.and_(_PLAIN)
        else:
            last = _OF_KIND.get(kind or "", _PLAIN)
            size = size.and_(last)
    for each in outer:
        size = size.and_(each)
    return size
