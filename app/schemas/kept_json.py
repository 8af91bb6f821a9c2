"""A cache for the JSON of Avro messages."""

from collections import deque
from typing import Final, Protocol

# The maximum size of all JSON that is kept. Only messages that are much larger as JSON than as Avro
# are counted. The JSON of all other messages is limited by the size of their Avro.
KEPT_BYTES_MAX: Final = 32 << 20
_FREE_BYTES: Final = 1_024
_FREE_RATIO: Final = 4


class Readable(Protocol):
    """A message with JSON that can be dropped, and made again."""

    def forget(self) -> None:
        """Drop the message's JSON."""


class KeptJson:
    """Limits the memory for large JSON. If it is full, the oldest messages drop their JSON."""

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[tuple[Readable, int]] = deque()
        self._bytes = 0

    def keep(self, message: Readable, size: int, *, stored: int) -> None:
        """Remember that `message` has JSON of `size` bytes, made from `stored` bytes."""
        if size <= _FREE_BYTES + _FREE_RATIO * stored:
            return
        self._kept.append((message, size))
        self._bytes += size
        # The last message keeps its JSON, because this JSON is in use.
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            dropped, size = self._kept.popleft()
            dropped.forget()
            self._bytes -= size


kept_json: Final = KeptJson()
