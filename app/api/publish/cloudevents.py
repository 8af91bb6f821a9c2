"""Published CloudEvents 1.0: the parts of an event that Angelia uses."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from app.api.publish.headers import is_own_id
from app.domain.errors import (
    FieldProblem,
    FormatInvalidError,
    MessageInvalidError,
    ValidationFailedError,
)
from app.schemas.json_bodies import root_members

STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"

_BINARY_ID: Final = b"ce-id"
_BINARY_KEY: Final = b"ce-partitionkey"
_REQUIRED: Final = ("id", "source", "type")
# The attributes that Angelia reads from an event in structured mode.
_USED: Final = (*_REQUIRED, "specversion", "partitionkey")


class PublishedEvent(NamedTuple):
    """The parts of a published event that Angelia uses.

    Attributes:
        id: The event's id; None if a message cannot have such an id.
        key: The event's extension `partitionkey`, which becomes the partition key.
        checked: Whether the body needs no further check: it is JSON, or an event without data.
    """

    id: bytes | None
    key: bytes | None
    checked: bool = False


NO_EVENT: Final = PublishedEvent(id=None, key=None)


async def event_of(raw: bytes) -> PublishedEvent:
    """Parse an event in structured mode.

    While a large event is parsed, the process also handles other requests.

    Raises:
        FormatInvalidError: The body is not JSON.
        ValidationFailedError: The body is not an event.
    """
    try:
        event = await root_members(raw, _USED)
    except MessageInvalidError as exc:
        raise FormatInvalidError(f"The event {exc.details[0].message}") from exc
    if event is None:
        raise FormatInvalidError("The event must be a JSON object")
    if problems := _problems(event):
        raise ValidationFailedError(problems)
    given_id = event["id"].encode()
    key = event.get("partitionkey")
    return PublishedEvent(
        id=given_id if is_own_id(given_id) else None,
        key=key.encode() if isinstance(key, str) and key else None,
        checked=True,
    )


def event_in_binary_mode(propagated: Sequence[tuple[bytes, bytes]], body: bytes) -> PublishedEvent:
    """Return the event whose attributes are in the headers `propagated`.

    Without such headers, the result has no id and no key.
    """
    attributes = dict(reversed(propagated))
    given_id = attributes.get(_BINARY_ID, b"")
    return PublishedEvent(
        id=given_id if is_own_id(given_id) else None,
        key=attributes.get(_BINARY_KEY) or None,
        # An event may have no data, because CloudEvents 1.0 (2.4) makes data optional. An event
        # without data has no body in HTTP (HTTP binding, 3.1.2).
        checked=bool(given_id) and not body,
    )


def _problems(event: dict[str, Any]) -> list[FieldProblem]:
    """Return a problem for each attribute that CloudEvents 1.0 requires and the event lacks."""
    problems = [
        FieldProblem(path=name, message="must be a string that is not empty")
        for name in _REQUIRED
        if not isinstance(event.get(name), str) or not event[name]
    ]
    if event.get("specversion") != "1.0":
        problems.append(FieldProblem(path="specversion", message='must be "1.0"'))
    return problems
