"""Values of a JSON body as texts."""

from typing import Any, Final

import orjson

from app.filtering.budget import Budget, PathError

# Bytes of JSON that are one piece of work to write.
_BYTES_PER_WORK: Final = 48


def text_of(value: Any, budget: Budget) -> str:  # noqa: ANN401 - JSON is of any type
    """A text as it is; anything else as JSON writes it.

    Raises:
        PathError: It is nested too deep to be written.
        ExhaustedError: All that was written so far is too much.
    """
    if isinstance(value, str):
        return value
    try:
        written = orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as exc:
        raise PathError("what the path finds is nested too deep") from exc
    # Once it is written: by itself it is no longer than what was parsed.
    budget.spend(len(written) // _BYTES_PER_WORK)
    return written.decode()
