"""Measures for how long a client has read too little of its waiting responses."""

from typing import Final

# The minimum number of bytes that a client must read in the allowed time, if at least this many
# bytes wait. Without a minimum, a client could keep a connection forever by reading a byte now and
# then.
READ_MIN: Final = 32 * 1024


class UnreadAnswers:
    """Measures how fast a client reads responses.

    A client may take as long as it needs for a response, if it always reads READ_MIN bytes in the
    allowed time.
    """

    def __init__(self) -> None:
        self._left = 0
        self._since = 0.0

    def unmoved_s(self, left: int, now: float) -> float:
        """Return how long ago the client last read READ_MIN bytes. `left` bytes wait for it now."""
        if not left or not self._left or left <= self._left - READ_MIN:
            self._left, self._since = left, now
        return now - self._since

    def moved(self) -> None:
        """Called when the client has read nearly everything. Start to measure again."""
        self._left = 0
