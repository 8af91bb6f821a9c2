"""Responses about messages: their outcomes, and the results of jobs and redrives."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from angelia_client.reading import Answered, FromJson, Instant, InstantMs, TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Answered):
    """The outcome of a message in one subscription while its publisher waited."""

    SCHEMA: ClassVar[str] = ""

    name: str
    outcome: str
    status: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A stored message.

    Attributes:
        message_id: The id of the message.
        subscriptions: How many subscriptions get the message, if known.
        duplicate: Whether the message was stored before, and is not stored again.
        alternate_topic: The alternate topic that has stored the message; None if the requested
            topic has stored it.
        complete: Whether the outcomes of all subscriptions are known; None without `wait`.
        acknowledged: Whether the condition `ack_expression` is true; None without a condition.
        outcomes: The outcomes that were known when the client stopped waiting.
    """

    message_id: str
    subscriptions: int | None = None
    duplicate: bool = False
    alternate_topic: str | None = None
    complete: bool | None = None
    acknowledged: bool | None = None
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult(Answered):
    """The result for one message of a batch. `status` 201 means stored, others mean refused.

    `duplicate_of` is the id of the stored message, if duplicates are refused.
    """

    SCHEMA: ClassVar[str] = ""

    id: str
    status: int
    code: str | None
    message: str | None
    duplicate: bool | None
    duplicate_of: str | None

    @property
    def stored(self) -> bool:
        """Whether the log has the message."""
        return self.status == 201  # noqa: PLR2004 - the status 201 (Created)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Answered):
    """A message in the log."""

    SCHEMA: ClassVar[str] = "MessageRead"

    message_id: str
    published_at: Annotated[InstantMs, FromJson(name="timestamp")]
    topic: TopicName
    partition: int
    offset: int
    key: str | None
    message: str
    message_base64: str | None

    @property
    def body(self) -> bytes:
        """Return the body as it was published."""
        return _bytes(self.message, self.message_base64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered(Answered):
    """A message that a subscription did not get, and the reason.

    Attributes:
        last_failure: Why the last attempt failed, if `status_code` does not say it.
        answer: The start of the body of the subscriber's last response, if it is text.
    """

    SCHEMA: ClassVar[str] = "UndeliveredRead"

    message_id: str
    discarded_at: Annotated[InstantMs, FromJson(name="timestamp")]
    topic: TopicName
    subscription: str
    reason: str
    status_code: int | None
    last_failure: str | None
    answer: str | None
    attempts: int
    partition: int
    offset: int
    message: str
    message_base64: str | None
    redriven_at: InstantMs | None

    @property
    def body(self) -> bytes:
        """Return the body as it was published."""
        return _bytes(self.message, self.message_base64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry(Answered):
    """One event in the trace of a message. The attributes below are in milliseconds.

    Attributes:
        queued: How long the message was in the log until a worker took it.
        waited: How long the message then waited for the attempt.
        took: How long the attempt took.
    """

    SCHEMA: ClassVar[str] = "TraceRead"

    message_id: str
    at: Annotated[InstantMs, FromJson(name="timestamp")]
    topic: TopicName
    subscription: str | None
    status: str
    reason: str | None
    partition: int | None
    offset: int | None
    attempt: int | None
    status_code: int | None
    queued: float | None
    waited: float | None
    took: float | None
    worker: str | None
    address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position in a topic's log where a subscription continues."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven(Answered):
    """Which discarded messages were sent again, or would be sent if `dry_run` were not set.

    The messages that were discarded first are sent first.

    Attributes:
        id: The id of the redrive, which the requests to the subscriber have in the header
            `Hermes-Retransmission`; None if nothing was sent.
        count: How many messages were sent, or would be sent.
        bytes: The size of the bodies of these messages.
        more: Whether more messages are selected. If so, repeat the request.
        newest: When the last of these messages was discarded.
    """

    SCHEMA: ClassVar[str] = "RedriveRead"

    id: str | None
    count: int
    bytes: int
    more: bool
    newest: InstantMs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope(Answered):
    """What a job is about: a time, and a topic or subscription. No topic means all topics."""

    SCHEMA: ClassVar[str] = "ScopeRead"

    start: Annotated[Instant, FromJson(name="from")]
    end: Annotated[Instant, FromJson(name="to")]
    topic: str | None
    subscription: str | None
    slo_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Answered):
    """A Spark job. `progress` is the fraction of its work that is finished, from 0 to 1."""

    SCHEMA: ClassVar[str] = "JobRead"

    id: str
    kind: str
    scope: Scope
    state: Literal["REQUESTED", "RUNNING", "DONE", "CANCELLED", "FAILED"]
    cancelling: bool
    waiting_for: str | None
    step: str | None
    progress: float
    requested_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    runner: str | None
    attempts: int
    counts: Mapping[str, int]
    output: str | None
    reason: str | None
    log: tuple[str, ...] | None

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.state in {"DONE", "CANCELLED", "FAILED"}


def _bytes(text: str, base64: str | None) -> bytes:
    return text.encode() if base64 is None else b64decode(base64)
