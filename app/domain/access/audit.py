"""Audit events: who changed which resource, and its state before and after the change."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """The kind of a change. If Hermes has the same kind, the name is also the same."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    REMOVED = "REMOVED"
    MOVED = "MOVED"
    REDRIVEN = "REDRIVEN"
    REQUESTED = "REQUESTED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one resource, such as a topic.

    Attributes:
        action: The kind of the change.
        kind: The kind of the resource.
        name: The name of the resource.
        before: The whole resource before the change, without secrets; None if it was created.
        after: The whole resource after the change, without secrets; None if it was deleted.
    """

    action: Action
    kind: str
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """A change, its time, and the API key that made it.

    `key_id` is None if the caller had no key.
    """

    id: int
    at: datetime
    actor: str
    key_id: str | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects audit events. A field that is None selects all.

    `since` is inclusive, and `until` is exclusive.
    """

    kind: str | None = None
    name: str | None = None
    actor: str | None = None
    action: Action | None = None
    since: datetime | None = None
    until: datetime | None = None
