"""Dead letters: copies of discarded messages in a topic that the user has chosen."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from app.domain.discards.undelivered import Undelivered
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    HEADER_TIMESTAMP,
    Message,
    NewRecord,
)
from app.domain.names import topic_name

# The maximum number of dead-letter topics through which a message may pass. A subscription of a
# dead-letter topic may discard the message again, and copy it to another dead-letter topic.
ROUTE_MAX: Final = 8
_TEXT_MAX: Final = 1_000
HEADERS_PREFIX: Final = "Angelia-Dead-Letter-"
_PREFIX: Final = HEADERS_PREFIX
_ROUTE: Final = _PREFIX + "Route"
_LOWER_PREFIX: Final = _PREFIX.lower().encode("ascii")
_LETTERS: Final = UUID("6f2a6c1e-9d0b-4c0e-8a5d-3b7f1d9e4c52")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The topic to which the discarded messages of a subscription are copied."""

    topic: str

    def __post_init__(self) -> None:
        topic_name(self.topic, path="deadLetter.topic")


def dead_letter_record(
    message: Message, discarded: Undelivered, *, now_ms: int
) -> NewRecord | None:
    """Return the record for the dead-letter topic: the message, and why it was discarded.

    The record has the form of a published message. Its propagated headers `Angelia-Dead-Letter-…`
    describe the discard. The header `Angelia-Dead-Letter-Route` lists each `topic/subscription`
    that has discarded the message so far, in order. The result is None if this list already
    contains the subscription, or is full. Otherwise the message could pass the same topics forever.

    The record has no time: the log sets it when it stores the record. Kafka can refuse a record
    that is too old, and an append may be repeated for a long time.

    The message in the record has an id that depends only on the discard. So receivers recognise a
    record that is repeated after a crash.
    """
    route = [*_route(message), f"{discarded.topic}/{discarded.subscription}"]
    if len(route) > ROUTE_MAX or route[-1] in route[:-1]:
        return None
    details = _described(message, discarded) | {_ROUTE: ", ".join(route)}
    described = [(name.encode("ascii"), _sendable(value)) for name, value in details.items()]
    kept = [pair for pair in message.propagated if not pair[0].lower().startswith(_LOWER_PREFIX)]
    return NewRecord(
        value=message.stored,
        key=message.key,
        headers=(
            (HEADER_ID, str(uuid5(_LETTERS, _discard_key(discarded))).encode("ascii")),
            (HEADER_TIMESTAMP, b"%d" % now_ms),
            (HEADER_CONTENT_TYPE, message.content_type),
            *((HEADER_PROPAGATED_PREFIX + name, value) for name, value in (*kept, *described)),
        ),
    )


def _discard_key(discarded: Undelivered) -> str:
    position = f"{discarded.subscription_id}/{discarded.partition}/{discarded.offset}"
    return f"{position}/{discarded.message_id}"


def _described(message: Message, discarded: Undelivered) -> dict[str, str]:
    return {
        _PREFIX + "Reason": discarded.reason,
        **_last_attempt(discarded),
        _PREFIX + "Attempts": str(discarded.attempts),
        _PREFIX + "Topic": discarded.topic,
        _PREFIX + "Subscription": discarded.subscription,
        _PREFIX + "Message-Id": discarded.message_id,
        _PREFIX + "Partition": str(discarded.partition),
        _PREFIX + "Offset": str(discarded.offset),
        _PREFIX + "Published": _published(message),
        _PREFIX + "Time": _rfc3339(discarded.discarded_at),
    }


def _last_attempt(discarded: Undelivered) -> dict[str, str]:
    known = dict[str, str]()
    if discarded.status is not None:
        known[_PREFIX + "Status"] = str(discarded.status)
    if discarded.last_failure:
        known[_PREFIX + "Last-Failure"] = discarded.last_failure
    return known


def _route(message: Message) -> list[str]:
    name = _ROUTE.lower().encode("ascii")
    for given, value in message.propagated:
        if given.lower() == name:
            return value.decode("ascii", "replace").split(", ")
    return []


def _published(message: Message) -> str:
    try:
        return _rfc3339(_EPOCH + timedelta(milliseconds=message.published_ms))
    except OverflowError:
        return ""  # ignore an invalid time: other producers may write any number


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sendable(text: str) -> bytes:
    """Return `text` as the value of a header. Characters that a header cannot have are replaced.

    The text may have any characters: the reason of a discard contains text of the subscriber, and
    foreign producers choose the ids of their messages.
    """
    printable = "".join(char if char.isprintable() else " " for char in text[:_TEXT_MAX])
    return printable.encode("ascii", "replace").strip()
