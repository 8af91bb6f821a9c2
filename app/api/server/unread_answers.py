"""For how long a client has read too little of the answers that wait for it."""

from typing import Final

# Who is waited for reads at least so many bytes, or all there are, in the time that is allowed for
# it. Less is no progress: a byte now and then would hold a connection for ever.
READ_MIN: Final = 32 * 1024


class UnreadAnswers:
    """Measures progress, not the whole time: a slow client may take as long as it needs."""

    def __init__(self) -> None:
        self._left = 0
        self._since = 0.0

    def unmoved_s(self, left: int, now: float) -> float:
        """How long ago READ_MIN were last seen to be read, where `left` bytes wait now."""
        if not left or not self._left or left <= self._left - READ_MIN:
            self._left, self._since = left, now
        return now - self._since

    def moved(self) -> None:
        """Nearly all was read: from now on it is measured anew."""
        self._left = 0
