"""How long foreign records may hold up a topic."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

# Of each hour that begins with such a record.
HELD_MAX: Final = timedelta(seconds=60)
HOUR: Final = timedelta(hours=1)


@dataclass(slots=True)
class _Held:
    began: float
    until: float
    seconds: float = 0.0
    # Since when; each once, however many records there are.
    waiting: dict[Hashable, float] = field(default_factory=dict)


class HoldBudget:
    """Counts the time in which something of a topic was waited for; together, it counts once."""

    def __init__(self) -> None:
        self._topics: dict[str, _Held] = {}

    def allows(self, topic: str, now: float) -> bool:
        """Whether the topic may be held any longer."""
        held = self._topics.get(topic)
        return held is None or _is_over(held, now) or held.seconds < HELD_MAX.total_seconds()

    def begin(self, topic: str, name: Hashable, now: float) -> None:
        """From now on it is waited for, if it was not already."""
        held = self._topics.get(topic)
        if held is None or _is_over(held, now):
            self._forget(now)
            held = self._topics[topic] = _Held(until=now, began=now)
        held.waiting.setdefault(name, now)

    def count(self, topic: str, name: Hashable, now: float) -> None:
        """It was waited for until now, if it was at all."""
        held = self._topics.get(topic)
        if held is not None and name in held.waiting:
            held.seconds += max(0.0, now - max(held.waiting[name], held.until))
            held.until = now

    def end(self, topic: str, name: Hashable) -> None:
        """It is waited for no longer."""
        held = self._topics.get(topic)
        if held is not None:
            held.waiting.pop(name, None)

    def _forget(self, now: float) -> None:
        self._topics = {name: h for name, h in self._topics.items() if not _is_over(h, now)}


def _is_over(held: _Held, now: float) -> bool:
    return now - held.began >= HOUR.total_seconds()
