"""The possible outcomes of an attempt to deliver a message."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from app.domain.circuit import ErrorType

TTL_ELAPSED: Final = "Total timeout elapsed"
PUBLISH_TTL_ELAPSED: Final = "Older than publishTtl before the first attempt"
RETRIES_EXHAUSTED: Final = "Maximum number of retries reached"
BATCH_VOLUME_EXCEEDED: Final = "Larger than a batch may be (batchVolume)"
BUFFER_FULL: Final = "The retry buffer is full"
ROOM_NEEDED: Final = "The retry buffer is full, and this was tried for exhaustedWaitMax"
DEAD_LETTER_TOPIC_GONE: Final = "The dead-letter topic does not exist"
GONE: Final = "The endpoint answered 410 Gone"

# The maximum length of a failure's reason that is kept with its message. A reason may quote a
# subscriber.
LAST_FAILURE_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The subscriber accepted the message."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The attempt failed, and the message must be retried.

    Attributes:
        reason: Why the attempt failed.
        status: The response status; None if there was no response.
        retry_after: How long the subscriber wants no request; None if it has not said this.
        error: The type of the failure, if the status does not show it.
        blameless: Whether the failure says nothing about the subscriber's health.
        others_well: About the other addresses of a broadcast. True: another address has accepted or
            finally refused the message in this attempt. False: the other addresses got no request,
            because they had accepted or refused the message before. None: all addresses failed, or
            there is only one.
        answer: The start of the response's body (`answer_excerpt`).
        unsent: True if nothing was sent: when the request got a connection, it was no longer
            allowed. Then this was no attempt.
        progress: Which addresses of a broadcast have accepted or refused the message. The caller
            keeps this value for the next attempt. None if there is no broadcast.
    """

    reason: str
    status: int | None = None
    retry_after: timedelta | None = None
    error: ErrorType | None = None
    blameless: bool = False
    others_well: bool | None = None
    answer: str = ""
    unsent: bool = False
    progress: object = field(default=None, compare=False, repr=False)

    @property
    def timed_out(self) -> bool:
        """Whether the subscriber did not respond in time."""
        return self.error is ErrorType.TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """The message is given up: there is no further attempt.

    Attributes:
        reason: Why the message is discarded.
        status: The response status; None if there was no response.
        suspension: Why the whole subscription must be suspended; None if it is not suspended.
        answer: The start of the response's body (`answer_excerpt`).
        progress: The same value as in `Retry`. Some callers make another attempt anyway, and need
            it.
    """

    reason: str
    status: int | None = None
    suspension: str | None = None
    answer: str = ""
    progress: object = field(default=None, compare=False, repr=False)


Outcome = Delivered | Retry | Discarded


class LastFailure(NamedTuple):
    """What is kept of the last attempt of a message, beside its status, if the attempt failed.

    Attributes:
        reason: Why the attempt failed; "" if the status or the reason of the discard says it.
        answer: The start of the response's body (`answer_excerpt`).
    """

    reason: str = ""
    answer: str = ""


NO_FAILURE: Final = LastFailure()


class Answered(NamedTuple):
    """The subscriber has sent a response. The names in `headers` are in lower case.

    `body` is the part of the response's body that was read. The class is a tuple for speed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """The subscriber has sent no usable response. `reason` says why.

    The subscriber may have received the message anyway. If `refused` is true, nothing was sent,
    because the address is forbidden.
    """

    reason: str
    timed_out: bool = False
    refused: bool = False


Answer = Answered | Unanswered


def failed_reason(status: int) -> str:
    """Return why an attempt failed: the failure expression is true for its response."""
    return f"The failure expression is true of an answer with status code:{status}"


def status_reason(status: int) -> str:
    """Return why an attempt failed that got the status `status`. The words are those of Hermes."""
    return f"Message sending failed with status code:{status}"


def last_failure(failed: Retry) -> LastFailure:
    """Return what is kept of a failed attempt while its message waits for the next one."""
    return _kept(failed.reason[:LAST_FAILURE_MAX], failed.status, failed.answer)


# Failures of a subscriber are mostly equal. Equal ones are one object, so messages that wait for a
# retry need little memory for them.
@lru_cache(maxsize=256)
def _kept(reason: str, status: int | None, answer: str) -> LastFailure:
    known = status is not None and reason == status_reason(status)
    return LastFailure("" if known else reason, answer)


def internal_error(error: Exception) -> str:
    """Return why a message is discarded that caused the unexpected error `error`."""
    return f"Internal error: {type(error).__name__}"
