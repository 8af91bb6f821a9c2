"""What becomes of an attempt to deliver a message."""

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
    """The subscriber has it."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Not yet: try again, and never before `retry_after` when the subscriber asked for it.

    `error` is what it failed of where the status does not say so. `blameless`: it says nothing of
    how the subscriber fares. `others_well` is of a subscriber with several addresses that get the
    message: True, others of them answered well; False, others were not asked, because they are done
    with it. `progress` is what its destination knows of the message for the next attempt, as long
    as whoever is to make that holds it.
    """

    reason: str
    status: int | None = None
    retry_after: timedelta | None = None
    error: ErrorType | None = None
    blameless: bool = False
    others_well: bool | None = None
    progress: object = field(default=None, compare=False, repr=False)

    @property
    def timed_out(self) -> bool:
        """Whether there was no answer in time."""
        return self.error is ErrorType.TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Never: no further attempt is made, for `reason`.

    With `suspension` the subscription gets no more messages at all, for that reason. `progress` is
    as that of `Retry`, for whoever tries again all the same.
    """

    reason: str
    status: int | None = None
    suspension: str | None = None
    progress: object = field(default=None, compare=False, repr=False)


Outcome = Delivered | Retry | Discarded


class Answered(NamedTuple):
    """The subscriber answered. `headers` are found by their lower-case names.

    `body` is what was read of it, and empty for a subscription that does not look at it. A tuple,
    because there is one for every request that is sent.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """No usable answer came, for `reason`; the subscriber may have the message all the same.

    `refused`: nothing was sent, because nothing may be sent there.
    """

    reason: str
    timed_out: bool = False
    refused: bool = False


Answer = Answered | Unanswered


def failed_reason(status: int) -> str:
    """For an answer that counts as a failure because the subscription's expression says so."""
    return f"The failure expression is true of an answer with status code:{status}"


def status_reason(status: int) -> str:
    """Hermes' words for an attempt that was answered with a failure."""
    return f"Message sending failed with status code:{status}"


def internal_error(error: Exception) -> str:
    """For a message of which a defect of ours makes `error`."""
    return f"Internal error: {type(error).__name__}"
