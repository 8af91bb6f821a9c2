"""Quotas of brokers (KIP-219): a client that exceeds its quota is asked for a pause."""

import asyncio
import time
from typing import Final

import structlog

from app.domain.errors import LogUnavailableError
from app.log.interface import LogStats, Throttling

# The longest pause that this client keeps, in seconds. By default, brokers ask for 11 seconds at
# most.
THROTTLE_S_MAX: Final = 60.0

_log = structlog.get_logger(__name__)


class Throttle:
    """The pause that a broker has asked for on a connection.

    During this pause, nothing is sent to the broker.
    """

    def __init__(self, node: int, stats: LogStats) -> None:
        self._node = node
        self._stats = stats
        self._until = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next request may be sent; 0 if it may be sent now."""
        return max(0.0, self._until - time.monotonic()) if self._until else 0.0

    async def over(self, patience_s: float) -> None:
        """Wait until the next request may be sent.

        Raises:
            LogUnavailableError: The wait would be longer than `patience_s`.
        """
        while left_s := self.left_s:
            await asyncio.sleep(min(left_s, patience_s))
            if left_s > patience_s:
                message = f"Kafka wants no requests for {left_s:.1f} s: a quota is used up"
                raise LogUnavailableError(message)

    def note(self, throttle_ms: int) -> None:
        """Start the pause that a response asks for."""
        now = time.monotonic()
        begin, end = max(now, self._until), now + min(throttle_ms / 1000, THROTTLE_S_MAX)
        if end <= begin:
            return
        if begin == now:
            _log.info("kafka_throttled", broker=self._node, seconds=end - now)
        self._stats.throttled_seconds += end - begin
        self._stats.throttles[self._node] = Throttling(end - now, end)
        self._until = end
