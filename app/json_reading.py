"""Reads JSON of any size, with the garbage collector off for large JSON."""

from typing import Any, Final

import orjson

from app.domain.uncollected import Uncollected

# The size in bytes above which the garbage collector is switched off while JSON is parsed. For
# larger JSON, garbage collection can take longer than parsing.
_LARGE: Final = 16 * 1024


def read_json(text: bytes) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse `text` as JSON, and return the value.

    Raises:
        orjson.JSONDecodeError: The text is not JSON.
    """
    if len(text) < _LARGE:
        return orjson.loads(text)
    with Uncollected():
        return orjson.loads(text)


def is_json(text: bytes) -> bool:
    """Whether `read_json` accepts the text."""
    try:
        read_json(text)
    except orjson.JSONDecodeError:
        return False
    return True
