"""Makes space in a full retry buffer, by discarding a message that was retried long enough.

The age of a message is measured like its time to live: it continues after a restart, and is paused
while the circuit is open.
"""

import time
from typing import Final

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.delivery import ROOM_NEEDED, Discarded
from workers.consumer.schedule.breaker import Breaker
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.source.message_source import MessageSource

# The oldest message is checked again after at least this many seconds. Its time to live may be
# paused, so it may not have waited long enough yet.
_LOOK_AGAIN_S: Final = 0.05


class Eviction:
    """Evicts messages from a full `retry_queue`, one by one, when the `source` has new ones."""

    def __init__(
        self, policy: DeliveryPolicy, source: MessageSource, retry_queue: RetryQueue
    ) -> None:
        self._source = source
        self._retry_queue = retry_queue
        self.configure(policy)

    def configure(self, policy: DeliveryPolicy) -> None:
        """From now on, let messages stay in a full buffer as long as `policy` allows."""
        wait = policy.exhausted_wait_max
        self._wait_s = None if wait is None else wait.total_seconds()

    def evict(self, now: float, breaker: Breaker | None) -> DeliveryJob | None:
        """Remove the oldest message from a full queue and return it, if it has waited long enough.

        The returned message is marked as refused, so that it is discarded.
        """
        left = self._left(now, breaker)
        if left is None or left > 0 or not self._source.take_start():
            return None
        job = self._retry_queue.take_oldest()
        if job is not None:
            job.refused = Discarded(reason=ROOM_NEEDED, status=job.status)
        return job

    def next_due(self, breaker: Breaker | None) -> float | None:
        """Return when a full queue will have space for the next message (monotonic seconds)."""
        if self._wait_s is None:
            return None
        now = time.monotonic()
        left = self._left(now, breaker)
        return None if left is None else now + max(left, _LOOK_AGAIN_S)

    def _left(self, now: float, breaker: Breaker | None) -> float | None:
        """Return for how many seconds the oldest message may still stay in the queue.

        None means that the message may stay until its time to live ends.
        """
        job = self._retry_queue.oldest
        if self._wait_s is None or job is None or job.refused or not job.attempts:
            return None
        if not self._source.has_wanted():
            return None
        shown = now if breaker is None else breaker.age(job, now)
        # Use the time to live that was in force when the job's deadline was set.
        return job.deadline - (job.ttl_s - self._wait_s) - shown
