"""JSON as text: finds where values begin and end, so that they can be passed on unchanged."""

import json
import re
from typing import Final

from app.domain.uncollected import Uncollected


def members(text: str) -> dict[str, str]:
    """Return the members of a valid JSON object, each value as its text.

    Raises:
        ValueError: The object is nested too deep.
    """
    found: dict[str, str] = {}
    at = skip_space(text, skip_space(text, 0) + 1)
    while text[at] == '"':
        name, end = _DECODER.raw_decode(text, at)
        start = skip_space(text, skip_space(text, end) + 1)
        end = value_end(text, start)
        found[name] = text[start:end]
        at = skip_space(text, end)
        at = skip_space(text, at + 1) if text[at] == "," else at
    return found


def value_end(text: str, at: int) -> int:
    """Return where the value that begins at `at` ends.

    Raises:
        ValueError: No value begins at `at`.
    """
    try:
        # Switch off the garbage collector, which would check all the temporary values that parsing
        # creates.
        with Uncollected():
            return _DECODER.raw_decode(text, at)[1]
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc


def skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    if text[at : at + 1] not in _SPACES:
        return at
    end: int = _SPACE(text, at).end()  # type: ignore[union-attr]  # the pattern matches any text
    return end


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_SPACES: Final = frozenset(" \t\n\r")
_SPACE: Final = re.compile(r"[ \t\n\r]*").match
# A JSON decoder that does not convert numbers, because only the position where a value ends is
# needed.
_DECODER: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_constant)
