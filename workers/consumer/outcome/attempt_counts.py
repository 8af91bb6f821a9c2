"""The attempts of one subscription in the last minute."""

from collections import deque
from datetime import timedelta
from typing import Final

from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.metrics.samples import ATTEMPTS
from app.domain.status import AttemptCounts

WINDOW: Final = timedelta(seconds=60)
_FIELDS: Final = tuple(AttemptCounts.__dataclass_fields__)
_BY_CLASS: Final = {2: "codes_2xx", 4: "codes_4xx", 5: "codes_5xx"}


class RecentCounts:
    """Counts the attempts of the last minute, in slices of about one second.

    `roll` ends the current slice, and drops slices that are older than one minute.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._slices: deque[tuple[float, dict[str, int]]] = deque()
        self._current = dict.fromkeys(_FIELDS, 0)
        self._total = dict.fromkeys(_FIELDS, 0)
        # The sums over all slices that have ended since the start, even dropped slices.
        self._ever = dict.fromkeys(_FIELDS, 0)
        # Counts of first attempts with a 2xx response in the current slice. These attempts are the
        # usual case, so their counters are attributes, which are faster than a dictionary.
        self._delivered = 0
        self._bytes = 0

    def delivered(self, size: int) -> None:
        """Count a first attempt with a 2xx response."""
        self._delivered += 1
        self._bytes += size

    def add(self, outcome: Outcome, *, size: int, retried: bool) -> None:
        """Count one attempt.

        Args:
            outcome: The outcome of the attempt.
            size: The number of bytes of the body.
            retried: Whether the message had an earlier attempt.
        """
        current = self._current
        current[_kind(outcome)] += 1
        if retried:
            current["retries"] += 1
        if isinstance(outcome, Delivered):
            current["bytes"] += size

    def roll(self, now: float) -> bool:
        """End the current slice. Return whether there were any attempts in the last minute."""
        self._current["codes_2xx"] += self._delivered
        self._current["bytes"] += self._bytes
        self._delivered = self._bytes = 0
        if any(self._current.values()):
            self._slices.append((now, self._current))
            for name, value in self._current.items():
                self._total[name] += value
                self._ever[name] += value
            self._current = dict.fromkeys(_FIELDS, 0)
        while self._slices and self._slices[0][0] <= now - WINDOW.total_seconds():
            for name, value in self._slices.popleft()[1].items():
                self._total[name] -= value
        return bool(self._slices)

    def window(self, now: float) -> timedelta:
        """Return the time over which attempts were counted: at most one minute."""
        return min(WINDOW, max(timedelta(seconds=1), timedelta(seconds=now - self._since)))

    def totals(self) -> AttemptCounts:
        """Return the counts of the ended slices of the last minute."""
        return AttemptCounts(**self._total)

    def ended(self) -> tuple[int, ...]:
        """Return the counts of all slices that have ever ended, in the order of ATTEMPTS."""
        return tuple([self._ever[name] for name in ATTEMPTS])

    def ever(self) -> AttemptCounts:
        """Return the counts of all attempts since the start, with the current slice."""
        ever = {name: value + self._current[name] for name, value in self._ever.items()}
        ever["codes_2xx"] += self._delivered
        ever["bytes"] += self._bytes
        return AttemptCounts(**ever)


def _kind(outcome: Outcome) -> str:
    if isinstance(outcome, Retry) and outcome.timed_out:
        return "timeouts"
    if outcome.status is None:
        return "other_errors"
    return _BY_CLASS.get(outcome.status // 100, "codes_other")
