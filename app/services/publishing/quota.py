"""Throughput quotas: how many bytes per second one topic may store (for each process)."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import ThroughputQuotaError

SLOT_S: Final = 0.1
# A window consists of this many periods of SLOT_S: the current period, and the periods of the
# second before. So no second exceeds the quota.
_SLOTS: Final = 11
_TOPICS_MAX: Final = 10_000

Clock = Callable[[], float]


class ThroughputQuotas:
    """Counts the bytes published to topics with a quota, in a sliding window of one second."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def admit(self, topic: Topic, size: int) -> None:
        """Count `size` bytes, if the quota allows them.

        A size above the whole quota is accepted if nothing was published for a second.

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
        # Forget all windows, also those in use, which then begin again. Otherwise windows of unused
        # topics would be kept forever.
        if len(self._windows) >= _TOPICS_MAX:
            self._windows.clear()
        return self._windows.setdefault(name, _Window())


class _Window:
    """The published bytes of each period of SLOT_S, the oldest first, and their sum."""

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
