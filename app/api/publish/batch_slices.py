"""Limits how long a batch is parsed before other requests are handled (pure)."""

from collections.abc import Callable
from typing import Final

# The time of one turn of the event loop. It is short, because a turn can take 10 ms longer:
# validating even a small message against a schema may take that long.
TURN_S: Final = 0.005


class BatchTurns:
    """Divides work into turns of the event loop.

    Each turn ends after a number of bytes or a time.
    """

    def __init__(self, *, bytes_max: int, clock: Callable[[], float]) -> None:
        self._bytes_max = bytes_max
        self._clock = clock
        self._bytes = 0
        self._ends = clock() + TURN_S

    def is_over(self, size: int) -> bool:
        """Return whether the turn must end after a message of `size` bytes."""
        self._bytes += size
        return self._bytes > self._bytes_max or self._clock() >= self._ends

    def begin(self) -> None:
        """Start the next turn."""
        self._bytes = 0
        self._ends = self._clock() + TURN_S
