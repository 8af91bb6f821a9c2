"""Limits how long records of producers other than Angelia may delay a topic."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

# The maximum delay in an hour. The hour starts with the first such record.
HELD_MAX: Final = timedelta(seconds=60)
HOUR: Final = timedelta(hours=1)


@dataclass(slots=True)
class _Held:
    began: float
    until: float
    seconds: float = 0.0
    # When the wait for each name started. Each name has one wait, even if many records need it.
    waiting: dict[Hashable, float] = field(default_factory=dict)


class HoldBudget:
    """Counts how long a topic waited. Waits that overlap count once."""

    def __init__(self) -> None:
        self._topics: dict[str, _Held] = {}

    def allows(self, topic: str, now: float) -> bool:
        """Whether the topic may still wait."""
        held = self._topics.get(topic)
        return held is None or _is_over(held, now) or held.seconds < HELD_MAX.total_seconds()

    def begin(self, topic: str, name: Hashable, now: float) -> None:
        """Start to wait for `name`, unless this wait has already started."""
        held = self._topics.get(topic)
        if held is None or _is_over(held, now):
            self._forget(now)
            held = self._topics[topic] = _Held(until=now, began=now)
        held.waiting.setdefault(name, now)

    def count(self, topic: str, name: Hashable, now: float) -> None:
        """Count the wait for `name` up to now, if there is such a wait."""
        held = self._topics.get(topic)
        if held is not None and name in held.waiting:
            held.seconds += max(0.0, now - max(held.waiting[name], held.until))
            held.until = now

    def end(self, topic: str, name: Hashable) -> None:
        """Stop waiting for `name`."""
        held = self._topics.get(topic)
        if held is not None:
            held.waiting.pop(name, None)

    def _forget(self, now: float) -> None:
        self._topics = {name: h for name, h in self._topics.items() if not _is_over(h, now)}


def _is_over(held: _Held, now: float) -> bool:
    return now - held.began >= HOUR.total_seconds()
