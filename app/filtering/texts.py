"""Values of a JSON body as texts."""

from typing import Any

import orjson

from app.filtering.paths import PathError


def text_of(value: Any) -> str:  # noqa: ANN401 - JSON is of any type
    """A text as it is; anything else as JSON writes it.

    Raises:
        PathError: It is nested too deep to be written.
    """
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, RecursionError) as exc:
        raise PathError("what the path finds is nested too deep") from exc
