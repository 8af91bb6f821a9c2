"""Checks whether a request that waited for its connection may still be sent."""

import time
from collections.abc import Callable

from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.delivery.deferral import Deferral
from workers.delivery.pace import Pace


class LateStart:
    """Checks the rate, deferrals and the end of the consumer again, just before a request is sent.

    The request was counted against the rate when it left the consumer. A call counts it at the time
    of the call instead.
    """

    __slots__ = ("_counted_at", "_deferral", "_is_over", "_job", "_pace")

    def __init__(
        self, job: DeliveryJob, pace: Pace, deferral: Deferral, *, is_over: Callable[[], bool]
    ) -> None:
        self._job = job
        self._pace = pace
        self._deferral = deferral
        self._is_over = is_over
        self._counted_at = job.sent_at

    def __call__(self) -> bool:
        """Return whether the request may be sent now."""
        now, job = time.monotonic(), self._job
        if self._is_over() or job.cursor.closing:
            return False
        if self._deferral.forbids(sent_at=job.sent_at, now=now):
            return False
        if not self._pace.moved(self._counted_at, now):
            return False
        self._counted_at = now
        return True
