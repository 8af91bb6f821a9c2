"""Retransmissions: the selection of messages to send again, and the progress."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from angelia_client.reading import Answered, FromJson, Instant
from angelia_client.requests import moment_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Selects messages to send again: those that match all given fields.

    Attributes:
        only: `all`, `undelivered`, or `missing`. Nothing says what became of a missing message.
        since: The earliest time of the publication. For `undelivered`, it is the earliest time of
            the discard. It may be a duration before now, such as `-6h`.
        until: The time before which the publication or the discard happened.
        status_codes: The status of the last response must be one of these; only for `undelivered`.
        reason: A part of the reason of the discard, only for `undelivered`.
        message_ids: The id of the message must be one of these.
        keys: The partition key of the message must be one of these.
        share: The part of the subscription's rate that the messages get, above 0 and up to 1.
        rate: How many messages are sent per second, at most. They never get more than `share`.
        dry_run: Whether messages are only counted, and not sent.
    """

    only: str
    since: datetime | str
    until: datetime | None = None
    status_codes: Sequence[int] = ()
    reason: str | None = None
    message_ids: Sequence[str] = ()
    keys: Sequence[str] = ()
    share: float | None = None
    rate: float | None = None
    dry_run: bool = False

    def as_body(self) -> dict[str, Any]:
        """Return the selection as a request body of the API."""
        given: dict[str, Any] = {
            "only": self.only,
            "from": moment_text(self.since),
            "to": None if self.until is None else time_text(self.until),
            "statusCodes": list(self.status_codes) or None,
            "reason": self.reason or None,
            "messageIds": list(self.message_ids) or None,
            "keys": list(self.keys) or None,
            "share": self.share,
            "rate": self.rate,
            "dryRun": self.dry_run or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCounts(Answered):
    """The numbers of messages in a retransmission.

    Attributes:
        matched: Chosen messages.
        bytes: The size of the bodies of the chosen messages.
        archived: Chosen messages that only the archive has.
        gone: Offsets that neither the archive nor the log has. Messages at these offsets may have
            been requested.
        untraced: Only for `missing`: offsets that were not checked, because traces do not reach
            back to their time.
        written: Messages that were appended to the log.
        finished: Messages that the subscription has finished.
        delivered: Messages that were delivered.
        discarded: Messages that were discarded again.
    """

    SCHEMA: ClassVar[str] = "CountsRead"

    matched: int
    bytes: int
    archived: int
    gone: int
    untraced: int | None
    written: int
    finished: int
    delivered: int | None
    discarded: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retransmission(Answered):
    """A retransmission. The Spark job that chooses its messages has the same id."""

    SCHEMA: ClassVar[str] = "RetransmissionRead"

    id: str
    state: Literal["REQUESTED", "READING", "SENDING", "DONE", "CANCELLED", "FAILED"]
    waiting_for: str | None
    only: str
    since: Annotated[Instant, FromJson(name="from")]
    until: Annotated[Instant, FromJson(name="to")]
    share: float
    rate: float | None
    dry_run: bool
    counts: ReplayCounts
    eta_seconds: float | None
    requested_at: Instant
    ended_at: Instant | None
    reason: str | None

    @property
    def ended(self) -> bool:
        """Whether the retransmission has ended."""
        return self.state in {"DONE", "CANCELLED", "FAILED"}

    @property
    def progress(self) -> float:
        """The fraction of the messages that are finished, from 0 to 1."""
        return self.counts.finished / self.counts.matched if self.counts.matched else 0.0
