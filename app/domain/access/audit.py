"""Audit events: who changed what, and what it was before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """The kind of a change: Hermes' names, and Angelia's where Hermes has none."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    REMOVED = "REMOVED"
    MOVED = "MOVED"
    REDRIVEN = "REDRIVEN"
    REQUESTED = "REQUESTED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the resource `kind` `name`. `before` and `after` contain no secrets.

    `before` is None for a creation, `after` for a deletion. For an update both are complete.
    """

    action: Action
    kind: str
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """A change, its time, and its key (`key_id` None: no key)."""

    id: int
    at: datetime
    actor: str
    key_id: str | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects events; None means any. `since` is inclusive, `until` is not."""

    kind: str | None = None
    name: str | None = None
    actor: str | None = None
    action: Action | None = None
    since: datetime | None = None
    until: datetime | None = None
