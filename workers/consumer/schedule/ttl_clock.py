"""The clock of times to live on one worker, for one subscription: it stands while nobody may send.

Pure: instants are monotonic seconds, and so is what it shows.
"""


class TtlClock:
    """Shows the monotonic clock, less the time for which it stood."""

    __slots__ = ("_since", "_stood", "_until")

    def __init__(self) -> None:
        self._stood = 0.0
        self._since: float | None = None
        self._until = 0.0

    @property
    def stands(self) -> bool:
        """Whether it stands."""
        return self._since is not None

    def stop(self, now: float, *, until: float) -> None:
        """Stand, until `until` at least."""
        if self._since is None:
            self._since = now
        self._until = until

    def go_on(self, now: float) -> None:
        """Run again."""
        self._stood = self.stood(now)
        self._since = None

    def stood(self, now: float) -> float:
        """Seconds for which it stood so far."""
        return self._stood if self._since is None else self._stood + now - self._since

    def at(self, instant: float, now: float) -> float:
        """What it will show at `instant`, if it stands no longer than is known `now`."""
        shown = instant - self.stood(now)
        if self._since is None:
            return shown
        return shown - max(0.0, min(instant, self._until) - now)
