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

    There are at most MESSAGES_MAX of them, and their bodies stay in memory. Each is forgotten when
    its next attempt fails. If it is delivered, or given up without an attempt, or if its partition
    moves to another worker, it is forgotten at the next failure or report.
    """

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        # In the order of the failures, the oldest first.
        self._failures: dict[DeliveryJob, FailedAttempt] = {}

    def failed(self, job: DeliveryJob, outcome: Retry) -> None:
        """Remember the failed attempt of a message that waits for a retry now.

        `job.attempts` counts this attempt already.
        """
        self._drop_ended()
        failures, message = self._failures, job.message
        if isinstance(message, MessageBatch):
            message = message.messages[0]
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

    def forget(self, job: DeliveryJob) -> None:
        """Called when an attempt of the message has failed, or when it is discarded."""
        self._failures.pop(job, None)

    def report(self) -> Sequence[FailedAttempt]:
        """Return the last failures of messages that are still retried here, the newest first."""
        self._drop_ended()
        return tuple(reversed(self._failures.values()))

    def _drop_ended(self) -> None:
        if self._failures:
            self._failures = {job: each for job, each in self._failures.items() if _is_retried(job)}


def _is_retried(job: DeliveryJob) -> bool:
    return job.refused is None and job.is_open and not job.cursor.closing
