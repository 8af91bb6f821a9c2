r"""What the engine takes to make a pattern of a JSON Schema ready, in steps of a microsecond.

It reads the pattern again for each class as `\w` that it writes in the way of ECMA-262, and makes
hundreds of parts for a property of characters as `\p{L}`. Measured at the worst that were found.
"""

import re
from typing import Final, NamedTuple

# For each character, and for each character and class that is written in another way.
_CHARACTER_STEPS: Final = 1.5
_CLASS_STEPS: Final = 0.7
# A part lets a character pass, some kinds of them, or those that have a property.
_PART_STEPS: Final = 1.0
_WIDE_STEPS: Final = 6.0
_PROPERTY_STEPS: Final = 800.0
# By then its parts are more than the engine takes.
_PARTS_STEPS_MAX: Final = 20_000.0
# To find the other case of a range of characters, or of a property.
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
# Behind a pattern they end what it leaves open: else its end would be looked for again and again.
_ENDS: Final = "]]}>"
# Repeated any more often, a number is no longer one.
_SIZE_MAX: Final = 1e18


class PatternSize(NamedTuple):
    """The parts of a pattern once its repetitions are written out, and the steps of making them."""

    parts: float
    steps: float

    def and_(self, other: "PatternSize") -> "PatternSize":
        """Of both."""
        return PatternSize(self.parts + other.parts, self.steps + other.steps)

    def times(self, count: int) -> "PatternSize":
        """Of it in that number."""
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
    """At most what it takes."""
    read = len(pattern) * (_CHARACTER_STEPS + _CLASS_STEPS * len(_CLASSES.findall(pattern)))
    if _FOLDING.search(pattern) and (not pattern.isascii() or _WIDE.search(pattern)):
        read += _FOLDED_STEPS * len(_FOLDED.findall(pattern))
    return read + min(written_size(pattern).steps, _PARTS_STEPS_MAX)


def written_size(pattern: str) -> PatternSize:
    """What it has in it, as far as that shows without a parser of patterns."""
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
            # Without an end it goes on with itself.
            count = least if most is None else int(most or least + 1)
            size, last = size.and_(last.times(max(count - 1, 0))), last.times(max(count, 1))
        elif kind == "free":
            # What is repeated without a number may be repeated again.
            size = size.and_(_PLAIN)
        else:
            last = _OF_KIND.get(kind or "", _PLAIN)
            size = size.and_(last)
    for each in outer:
        size = size.and_(each)
    return size
