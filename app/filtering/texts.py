"""Values of a JSON body as texts."""

from typing import Any, Final

import orjson

from app.filtering.budget import Budget, PathError

# The number of bytes of JSON that can be written with one unit of work.
_BYTES_PER_WORK: Final = 48


def text_of(value: Any, budget: Budget) -> str:  # noqa: ANN401 - JSON can have any type
    """Return a text unchanged, and any other value as JSON.

    Raises:
        PathError: The value has too many levels.
        ExhaustedError: The value takes too much work.
    """
    if isinstance(value, str):
        return value
    try:
        written = orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as exc:
        raise PathError("what the path finds is nested too deep") from exc
    # Subtract the work after writing the value as JSON. This is safe, because the value is not
    # longer than the whole body, which was parsed within the limit.
    budget.spend(len(written) // _BYTES_PER_WORK)
    return written.decode()
