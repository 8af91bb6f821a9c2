"""What becomes of an attempt to deliver a message."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

TTL_ELAPSED: Final = "Total timeout elapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The subscriber has it."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Not yet: try again, and never before `retry_after` when the subscriber asked for it."""

    reason: str
    status: int | None = None
    retry_after: timedelta | None = None
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Never: no further attempt is made, for `reason`."""

    reason: str
    status: int | None = None


Outcome = Delivered | Retry | Discarded


def status_reason(status: int) -> str:
    """Hermes' words for an attempt that was answered with a failure."""
    return f"Message sending failed with status code:{status}"
