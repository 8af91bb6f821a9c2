"""Responses with audit events."""

from typing import Any, Final

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.access.audit import Action, AuditEvent
from app.domain.errors import ValidationFailedError

_ID_DIGITS_MAX: Final = 18


class AuditEventRead(Schema):
    """A change: who, when, what.

    `before` and `after` show the object as the API does, without secrets.
    """

    id: int
    at: str = Field(description="RFC 3339")
    actor: str = Field(description="name of the key that was used")
    key_id: str | None = None
    action: str = Field(examples=["UPDATED"])
    kind: str = Field(examples=["subscription"])
    name: str = Field(examples=["shop.orders/billing"])
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def audit_event_read(event: AuditEvent) -> AuditEventRead:
    """Return the response for one event."""
    change = event.change
    return AuditEventRead(
        id=event.id,
        at=event.at.isoformat(),
        actor=event.actor,
        key_id=event.key_id,
        action=change.action.value,
        kind=change.kind,
        name=change.name,
        before=dict(change.before) if change.before is not None else None,
        after=dict(change.after) if change.after is not None else None,
    )


def action_of(text: str | None) -> Action | None:
    """Parse the query parameter `action`.

    Raises:
        ValidationFailedError: The text names no action.
    """
    if text is None:
        return None
    try:
        return Action(text.upper())
    except ValueError as exc:
        words = ", ".join(Action)
        raise ValidationFailedError.of("action", f"must be one of {words}") from exc


def event_id_of(text: str | None) -> int | None:
    """Parse the query parameter `after`.

    Raises:
        ValidationFailedError: The text is no id.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > _ID_DIGITS_MAX:
        raise ValidationFailedError.of("after", "must be the id of an event")
    return int(text)
