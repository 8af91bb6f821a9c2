"""The messages of one subscription whose attempts failed last, and that are still retried."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from app.domain.delivery import Retry
from app.domain.status import FailedAttempt
from app.domain.trace import TEXT_LENGTH_MAX, traced_id
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.delivery.batch import MessageBatch

# How many messages are remembered. Their last failures are in each report of the worker.
MESSAGES_MAX: Final = 3


class FailingMessages:
    """Remembers the last failure of the messages that failed last.

    A message that is finished, or that another worker has taken over, is forgotten at the next
    report.
    """

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        # In the order of the failures, the oldest first.
        self._failures: dict[DeliveryJob, FailedAttempt] = {}

    def failed(self, job: DeliveryJob, outcome: Retry) -> None:
        """Remember a failed attempt. `job.attempts` counts this attempt already."""
        failures, message = self._failures, job.message
        if isinstance(message, MessageBatch):
            message = message.messages[0]
        failures.pop(job, None)
        failures[job] = FailedAttempt(
            message_id=traced_id(message.id),
            at=datetime.now(UTC),
            attempts=job.attempts,
            reason=outcome.reason[:TEXT_LENGTH_MAX],
            status=outcome.status,
            answer=outcome.answer,
        )
        if len(failures) > MESSAGES_MAX:
            del failures[next(iter(failures))]

    def report(self) -> Sequence[FailedAttempt]:
        """Return the last failures of messages that are still retried here, the newest first."""
        if not self._failures:
            return ()
        self._failures = {job: each for job, each in self._failures.items() if _is_retried(job)}
        return tuple(reversed(self._failures.values()))


def _is_retried(job: DeliveryJob) -> bool:
    return job.is_open and not job.cursor.closing
