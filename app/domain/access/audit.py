"""Audit events: who changed what, and what it was before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """What was done: Hermes' words, and ours for what it has none for."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    REMOVED = "REMOVED"
    MOVED = "MOVED"
    REDRIVEN = "REDRIVEN"
    REQUESTED = "REQUESTED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the resource `kind` `name`; `before` and `after` have no secrets in them.

    Either is None where there was nothing before, or is nothing after; of an update they are whole.
    """

    action: Action
    kind: str
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """A change, when it was, and whose key did it (`key_id` None: nobody in particular)."""

    id: int
    at: datetime
    actor: str
    key_id: str | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events; what is None does not matter. `since` inclusive, `until` not."""

    kind: str | None = None
    name: str | None = None
    actor: str | None = None
    action: Action | None = None
    since: datetime | None = None
    until: datetime | None = None
