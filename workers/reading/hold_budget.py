"""Limits how long foreign records may delay a topic because their schemas are unknown."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

# The maximum time in an hour that a topic may be delayed. The hour starts when the first record
# begins to wait.
HELD_MAX: Final = timedelta(seconds=60)
HOUR: Final = timedelta(hours=1)


@dataclass(slots=True)
class _Held:
    began: float
    until: float
    seconds: float = 0.0
    # For each schema, the time since which records wait for it. Many records may wait for the same
    # schema.
    waiting: dict[Hashable, float] = field(default_factory=dict)


class HoldBudget:
    """Counts how long each topic has waited for unknown schemas in an hour.

    Time in which a topic waited for two schemas is counted once.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Held] = {}

    def allows(self, topic: str, now: float) -> bool:
        """Whether the topic has waited for less than HELD_MAX in this hour, and may still wait."""
        held = self._topics.get(topic)
        return held is None or _is_over(held, now) or held.seconds < HELD_MAX.total_seconds()

    def begin(self, topic: str, name: Hashable, now: float) -> None:
        """Note that the topic waits for the schema `name` since `now`.

        If the topic already waits for this schema, the earlier time stays.
        """
        held = self._topics.get(topic)
        if held is None or _is_over(held, now):
            self._forget(now)
            held = self._topics[topic] = _Held(until=now, began=now)
        held.waiting.setdefault(name, now)

    def count(self, topic: str, name: Hashable, now: float) -> None:
        """Add the time until `now` to the topic's total, if it waits for the schema `name`."""
        held = self._topics.get(topic)
        if held is not None and name in held.waiting:
            held.seconds += max(0.0, now - max(held.waiting[name], held.until))
            held.until = now

    def end(self, topic: str, name: Hashable) -> None:
        """Note that the topic does not wait for the schema `name` any more."""
        held = self._topics.get(topic)
        if held is not None:
            held.waiting.pop(name, None)

    def _forget(self, now: float) -> None:
        self._topics = {name: h for name, h in self._topics.items() if not _is_over(h, now)}


def _is_over(held: _Held, now: float) -> bool:
    return now - held.began >= HOUR.total_seconds()
