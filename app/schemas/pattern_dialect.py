"""Converts patterns of JSON Schemas (ECMA-262) to a form that Python's parser can read."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# Single characters stand for character properties in a converted pattern. This is the first of
# these characters. They are halves of surrogate pairs, which no pattern can contain.
_MARKS_BEGIN: Final = 0xD800
_PROPERTIES_MAX: Final = 20

# Finds a whole escape, or the start of a named group. Text after an escaped backslash (`\\d`) is
# not part of an escape.
_WRITTEN: Final = re.compile(
    r"\\(?:(?P<is>[pP])(?:\{(?P<property>[^}]*)\}|(?P<short>.))"
    r"|[uxU]\{(?P<code>[0-9A-Fa-f]{1,8})\}|c(?P<control>[A-Za-z])|(?P<end>z)|.)"
    r"|(?P<name>\(\?<(?![=!]))",
    re.DOTALL,
)
_LONG: Final = {
    "letter": "L",
    "uppercaseletter": "Lu",
    "lowercaseletter": "Ll",
    "titlecaseletter": "Lt",
    "modifierletter": "Lm",
    "otherletter": "Lo",
    "mark": "M",
    "combiningmark": "M",
    "nonspacingmark": "Mn",
    "spacingmark": "Mc",
    "enclosingmark": "Me",
    "number": "N",
    "decimalnumber": "Nd",
    "digit": "Nd",
    "letternumber": "Nl",
    "othernumber": "No",
    "punctuation": "P",
    "symbol": "S",
    "separator": "Z",
    "spaceseparator": "Zs",
    "other": "C",
    "control": "Cc",
}
# For each general category of Unicode, an example of a character in it.
_EACH: Final = {unicodedata.category(each): each for each in map(chr, range(0xD7FF, 0, -1))}


class UnreadError(Exception):
    """The pattern has parts that this code cannot convert, or too many parts."""


class Property:
    """A character property that a pattern tests.

    It is whether a character is in a general category (for example `L` or `Nd`), or is not in it.
    """

    def __init__(self, name: str, *, is_outside: bool) -> None:
        """Create a `Property`.

        Raises:
            UnreadError: The property is not a general category, but for example a script.
        """
        short = re.sub(r"^(gc|general_?category)=", "", name, flags=re.IGNORECASE)
        self._category = _LONG.get(re.sub(r"[ _-]", "", short).lower(), short)
        self._is_outside = is_outside
        if not any(each.startswith(self._category) for each in _EACH) or not short:
            raise UnreadError

    def has(self, character: str) -> bool:
        """Whether the character has the property."""
        is_inside = unicodedata.category(character).startswith(self._category)
        return is_inside is not self._is_outside


class ReadablePattern:
    r"""A pattern in a form that Python's parser can read.

    Python has no character properties such as `\p{L}`. So the text has a special character in the
    place of each property.
    """

    def __init__(self, pattern: str) -> None:
        """Convert the pattern.

        Raises:
            UnreadError: A property is unknown.
        """
        self._properties: dict[tuple[str, bool], tuple[int, Property]] = {}
        self.text = _WRITTEN.sub(self._readable, pattern)
        self._by_mark = dict(self._properties.values())

    def of_mark(self, code: int) -> Property | None:
        """Return the property for which the character `code` stands; None if it stands for none."""
        return self._by_mark.get(code)

    def distinguished(self) -> Iterable[str]:
        """Yield a character for each combination of the pattern's properties that occurs."""
        each = self._by_mark.values()
        return {tuple(one.has(at) for one in each): at for at in _EACH.values()}.values()

    def _readable(self, found: re.Match[str]) -> str:
        if found["name"]:
            return "(?P<"
        if found["is"]:
            return self._mark(found["property"] or found["short"], is_outside=found["is"] == "P")
        if found["code"]:
            return f"\\U{int(found['code'], 16):08x}"
        if found["control"]:
            return f"\\x{ord(found['control']) % 32:02x}"
        return r"\Z" if found["end"] else found[0]

    def _mark(self, name: str, *, is_outside: bool) -> str:
        if (name, is_outside) not in self._properties:
            if len(self._properties) == _PROPERTIES_MAX:
                raise UnreadError
            code = _MARKS_BEGIN + len(self._properties)
            self._properties[name, is_outside] = code, Property(name, is_outside=is_outside)
        return chr(self._properties[name, is_outside][0])
