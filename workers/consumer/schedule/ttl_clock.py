"""The clock of the times to live of one subscription on one worker.

The clock is paused while sending is blocked. Pure: all times are monotonic seconds.
"""


class TtlClock:
    """A clock that shows monotonic time, minus the time for which it was paused."""

    __slots__ = ("_paused_for", "_since", "_until")

    def __init__(self) -> None:
        self._paused_for = 0.0
        self._since: float | None = None
        self._until = 0.0

    @property
    def is_paused(self) -> bool:
        """Whether the clock is paused."""
        return self._since is not None

    def pause(self, now: float, *, until: float) -> None:
        """Pause the clock from `now`. The pause is expected to last at least until `until`."""
        if self._since is None:
            self._since = now
        self._until = until

    def resume(self, now: float) -> None:
        """Let the clock run again."""
        self._paused_for = self.paused_for(now)
        self._since = None

    def paused_for(self, now: float) -> float:
        """Return for how many seconds the clock has been paused in total."""
        return self._paused_for if self._since is None else self._paused_for + now - self._since

    def at(self, instant: float, now: float) -> float:
        """Return the clock's value at the time `instant`, if no other pause begins after `now`."""
        shown = instant - self.paused_for(now)
        if self._since is None:
            return shown
        return shown - max(0.0, min(instant, self._until) - now)
