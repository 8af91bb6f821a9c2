"""Throughput quotas: how many bytes per second each API process accepts for a topic."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import ThroughputQuotaError

SLOT_S: Final = 0.1
# The bytes of a topic are counted in periods of SLOT_S seconds. The quota is compared with the sum
# over this many periods: the current one, and those of the second before. So in no second more
# bytes than the quota are accepted.
_SLOTS: Final = 11
_TOPICS_MAX: Final = 10_000

Clock = Callable[[], float]


class ThroughputQuotas:
    """Counts the bytes that were published to each topic with a quota in the last second."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def admit(self, topic: Topic, size: int) -> None:
        """Count `size` bytes of the topic, if its quota allows these bytes.

        A `size` above the whole quota is accepted if nothing was published for a second.

        Raises:
            ThroughputQuotaError: The quota is used up; nothing is counted.
        """
        if topic.throughput_quota is None:
            return
        window = self._windows.get(topic.name) or self._opened(topic.name)
        now = int(self._clock() / SLOT_S)
        if not window.take(size, now=now, quota=topic.throughput_quota):
            raise ThroughputQuotaError(
                f"Topic {topic.name} takes at most {topic.throughput_quota} bytes a second"
            )

    def _opened(self, name: str) -> "_Window":
        # Forget the counted bytes of all topics when there are too many topics. Otherwise the
        # counts of unused topics would be kept forever. The counts of used topics begin again.
        if len(self._windows) >= _TOPICS_MAX:
            self._windows.clear()
        return self._windows.setdefault(name, _Window())


class _Window:
    """The published bytes in the last periods of SLOT_S seconds, oldest first, and their sum."""

    __slots__ = ("_slots", "_sum")

    def __init__(self) -> None:
        self._slots: deque[tuple[int, int]] = deque()
        self._sum = 0

    def take(self, size: int, *, now: int, quota: int) -> bool:
        while self._slots and now - self._slots[0][0] >= _SLOTS:
            self._sum -= self._slots.popleft()[1]
        if self._sum and self._sum + size > quota:
            return False
        counted = self._slots.pop()[1] if self._slots and self._slots[-1][0] == now else 0
        self._slots.append((now, counted + size))
        self._sum += size
        return True
