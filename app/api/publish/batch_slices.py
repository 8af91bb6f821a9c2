"""How long a batch is taken apart before other requests have their turn (pure)."""

from collections.abc import Callable
from typing import Final

# Small messages may each take up to 10 ms to be held against a schema.
TURN_S: Final = 0.005


class BatchTurns:
    """Turns of the event loop, each ended by so many bytes or by time."""

    def __init__(self, *, bytes_max: int, clock: Callable[[], float]) -> None:
        self._bytes_max = bytes_max
        self._clock = clock
        self._bytes = 0
        self._ends = clock() + TURN_S

    def is_over(self, size: int) -> bool:
        """Whether a turn ends with a message of `size` bytes."""
        self._bytes += size
        return self._bytes > self._bytes_max or self._clock() >= self._ends

    def begin(self) -> None:
        """Begin the next turn."""
        self._bytes = 0
        self._ends = self._clock() + TURN_S
