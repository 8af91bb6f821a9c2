"""For how long a client has read nothing of the answers that wait for it."""


class UnreadAnswers:
    """Measures progress, not the whole time: a slow client may take as long as it needs."""

    def __init__(self) -> None:
        self._left = 0
        self._since = 0.0

    def unmoved_s(self, left: int, now: float) -> float:
        """How long ago anything was seen to be read, where `left` bytes wait now."""
        if not left or not self._left or left < self._left:
            self._left, self._since = left, now
        return now - self._since

    def moved(self) -> None:
        """Something was read: from now on it is measured anew."""
        self._left = 0
