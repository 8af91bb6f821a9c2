"""Unexpected errors caused by one message or setting. They are counted, logged once, isolated."""

import structlog

from app.domain.delivery import internal_error
from app.domain.message import Message

_log = structlog.get_logger()


class Defects:
    """The unexpected errors of one subscription on one worker.

    If a message causes an unexpected error, it is recorded as undelivered. The error never reaches
    another subscription or the process.
    """

    __slots__ = ("_logged", "_subscription", "count")

    def __init__(self, subscription: str) -> None:
        self._subscription = subscription
        self._logged: set[tuple[str, str]] = set()
        # The number of all unexpected errors so far, whether they were logged or not.
        self.count = 0

    def found(self, error: Exception, *, step: str, message: Message | None = None) -> str:
        """Count the unexpected `error`, which was raised in the step `step` of a delivery.

        The first error of each type in each step is logged.

        Returns:
            The reason to record, for example for the discarded message.
        """
        self.count += 1
        kind = type(error).__name__
        if (step, kind) not in self._logged:
            self._logged.add((step, kind))
            _log.error(
                "internal_error",
                subscription=self._subscription,
                step=step,
                message_id=message and message.id.decode("utf-8", "replace"),
                exc_info=error,
            )
        return internal_error(error)
