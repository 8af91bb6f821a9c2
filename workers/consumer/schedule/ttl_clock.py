"""The clock of times to live on one worker, for one subscription: paused while nobody may send.

Pure: instants are monotonic seconds, and so is what it shows.
"""


class TtlClock:
    """Shows the monotonic clock, less the time for which it was paused."""

    __slots__ = ("_paused_for", "_since", "_until")

    def __init__(self) -> None:
        self._paused_for = 0.0
        self._since: float | None = None
        self._until = 0.0

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._since is not None

    def pause(self, now: float, *, until: float) -> None:
        """Pause, until `until` at least."""
        if self._since is None:
            self._since = now
        self._until = until

    def resume(self, now: float) -> None:
        """Run again."""
        self._paused_for = self.paused_for(now)
        self._since = None

    def paused_for(self, now: float) -> float:
        """Seconds for which it was paused so far."""
        return self._paused_for if self._since is None else self._paused_for + now - self._since

    def at(self, instant: float, now: float) -> float:
        """What it will show at `instant`, if it is paused no longer than is known `now`."""
        shown = instant - self.paused_for(now)
        if self._since is None:
            return shown
        return shown - max(0.0, min(instant, self._until) - now)
