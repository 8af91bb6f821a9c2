"""How long to wait after a broker refused the login (pure)."""

from typing import Final

PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0


class LoginPause:
    """A pause after a refused login. Each refusal makes it longer, until a login succeeds.

    Brokers log each attempt, and may lock out a user after many attempts.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    def lasts(self, now: float) -> bool:
        """Whether the pause is not over yet, so that no login may be tried."""
        return now < self._until

    def refused(self, now: float) -> None:
        """Start a pause that is twice as long as the last one, but not above a maximum."""
        self._seconds = min(max(PAUSE_MIN_S, self._seconds * 2), PAUSE_MAX_S)
        self._until = now + self._seconds

    def taken(self) -> None:
        """Make the next pause short again, because a login was successful."""
        self._seconds = 0.0
