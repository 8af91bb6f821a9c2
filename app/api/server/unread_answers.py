"""For how long a client has read too little of its waiting responses."""

from typing import Final

# A client must read at least this many bytes, or everything, in the allowed time. Less does not
# count as progress: otherwise a byte now and then would keep a connection forever.
READ_MIN: Final = 32 * 1024


class UnreadAnswers:
    """Measures progress, not the whole time: a slow client may take as long as it needs."""

    def __init__(self) -> None:
        self._left = 0
        self._since = 0.0

    def unmoved_s(self, left: int, now: float) -> float:
        """Return how long ago READ_MIN were last read; `left` bytes wait now."""
        if not left or not self._left or left <= self._left - READ_MIN:
            self._left, self._since = left, now
        return now - self._since

    def moved(self) -> None:
        """Start to measure again, because nearly everything was read."""
        self._left = 0
