"""The outcomes of an attempt to deliver a message."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The subscriber accepted the message."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The message must be retried, not before `retry_after` if the subscriber requested a time.

    Attributes:
        reason: Why the attempt failed.
        status: The response status; None if there was no response.
        retry_after: The time for which the subscriber wants no request.
        error: The error type, if the status does not show it.
        blameless: Whether the failure does not show the subscriber's health.
        others_well: For a subscriber with several addresses that all get the message. True if
            another address has accepted or finally refused the message now. False if the other
            addresses got no request now, because they had accepted or refused the message before.
            None if all addresses failed, or there is only one.
        unsent: Whether this was no attempt, because the request was not allowed any more when it
            had a connection. Nothing was sent.
        progress: Which addresses of a broadcast have accepted or refused the message. The caller
            stores this for the next attempt; None if it is not a broadcast.
    """

    reason: str
    status: int | None = None
    retry_after: timedelta | None = None
    error: ErrorType | None = None
    blameless: bool = False
    others_well: bool | None = None
    unsent: bool = False
    progress: object = field(default=None, compare=False, repr=False)

    @property
    def timed_out(self) -> bool:
        """Whether there was no response in time."""
        return self.error is ErrorType.TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """There is no further attempt for the message.

    Attributes:
        reason: Why the message is discarded.
        status: The response status; None if there was no response.
        suspension: Why the whole subscription must be suspended; None if it need not be.
        progress: The same as in `Retry`, for callers that make another attempt in spite of this
            outcome.
    """

    reason: str
    status: int | None = None
    suspension: str | None = None
    progress: object = field(default=None, compare=False, repr=False)


Outcome = Delivered | Retry | Discarded


class Answered(NamedTuple):
    """The subscriber responded. The keys of `headers` are lower-case names.

    `body` is the part of the body that was read, and is empty for a subscription that does not use
    bodies. This is a tuple for speed: there is one for every request.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """There was no usable response; `reason` says why.

    The subscriber may have received the message anyway. `refused` means that nothing was sent,
    because the address is forbidden.
    """

    reason: str
    timed_out: bool = False
    refused: bool = False


Answer = Answered | Unanswered


def failed_reason(status: int) -> str:
    """Return the reason why a response failed for which the failure expression is true."""
    return f"The failure expression is true of an answer with status code:{status}"


def status_reason(status: int) -> str:
    """Return the reason why an attempt with this response status failed, in Hermes' words."""
    return f"Message sending failed with status code:{status}"


def internal_error(error: Exception) -> str:
    """Return the reason to discard a message that caused an unexpected `error`."""
    return f"Internal error: {type(error).__name__}"
