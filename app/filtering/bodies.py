"""Message bodies as JSON, parsed at most once while many subscriptions ask for them."""

from collections import deque
from typing import Any, Final

import orjson

from app.domain.message import UNPARSED, Message

# Bodies kept parsed, by their size as bytes; parsed they are up to ten times as large.
PARSED_BYTES_MAX: Final = 8 << 20


class BodyError(ValueError):
    """The body is not JSON."""


class ParsedBodies:
    """Keeps the JSON of recent messages with them; what is over the bound is parsed anew."""

    def __init__(self, *, bytes_max: int = PARSED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[Message] = deque()
        self._bytes = 0

    def of(self, message: Message) -> Any:  # noqa: ANN401 - JSON is of any type
        """The body as JSON; BodyError."""
        if message.parsed is not UNPARSED:
            return message.parsed
        value = parsed(message.body)
        self._keep(message, value)
        return value

    def _keep(self, message: Message, value: object) -> None:
        message.parsed = value
        self._kept.append(message)
        self._bytes += len(message.body or b"")
        while self._bytes > self._bytes_max:
            dropped = self._kept.popleft()
            dropped.parsed = UNPARSED
            self._bytes -= len(dropped.body or b"")


def parsed(body: bytes | None) -> Any:  # noqa: ANN401 - JSON is of any type
    """`body` as JSON; BodyError."""
    try:
        return orjson.loads(body or b"")
    except orjson.JSONDecodeError as exc:
        raise BodyError(f"the body is not JSON: {exc}") from exc
