"""The JSON of messages in Avro, kept with those that were read last."""

from collections import deque
from typing import Final, Protocol

# Of all messages whose JSON is much more than their Avro. That of others is bounded as they are.
KEPT_BYTES_MAX: Final = 32 << 20
_FREE_BYTES: Final = 1_024
_FREE_RATIO: Final = 4


class Readable(Protocol):
    """A message that can be read again."""

    def forget(self) -> None:
        """Drop its JSON."""


class KeptJson:
    """Has messages forget large JSON that others of them read since have taken the room of."""

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[tuple[Readable, int]] = deque()
        self._bytes = 0

    def keep(self, message: Readable, size: int, *, stored: int) -> None:
        """`message` has JSON of `size` bytes from now on, read of so many that are stored."""
        if size <= _FREE_BYTES + _FREE_RATIO * stored:
            return
        self._kept.append((message, size))
        self._bytes += size
        # The last one is in use.
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            dropped, size = self._kept.popleft()
            dropped.forget()
            self._bytes -= size


kept_json: Final = KeptJson()
