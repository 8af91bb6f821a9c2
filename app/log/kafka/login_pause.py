"""How long a broker that refused us is not asked again (pure)."""

from typing import Final

PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0


class LoginPause:
    """Grows with each refusal in a row: brokers lock users out, and log each try."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    def lasts(self, now: float) -> bool:
        """Whether it is too early to try again."""
        return now < self._until

    def refused(self, now: float) -> None:
        """Begin one, twice as long as the one before."""
        self._seconds = min(max(PAUSE_MIN_S, self._seconds * 2), PAUSE_MAX_S)
        self._until = now + self._seconds

    def taken(self) -> None:
        """The broker takes us: the next one is short again."""
        self._seconds = 0.0
