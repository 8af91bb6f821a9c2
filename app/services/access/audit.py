"""Audit events: written with the changes that they describe, and searched."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from app.domain.access.audit import AuditEvent, AuditFilter, Change
from app.domain.access.keys import EVERYBODY, Caller
from app.storage.access.audit import AuditRepository
from app.storage.database import Database

_T = TypeVar("_T")
# Describes a resource in audit events, as in responses, so without its secrets.
Describe = Callable[[_T], Mapping[str, Any]]
# Raises an error if the resource is not in the state that the request expects.
Check = Callable[[_T], None]

# The caller of the current request: set once at the start, instead of passed through every
# signature.
_caller: Final[ContextVar[Caller]] = ContextVar("caller", default=EVERYBODY)


def act_as(caller: Caller) -> None:
    """Attribute all further changes of this task to `caller`."""
    _caller.set(caller)


def acting() -> Caller:
    """Return the caller to which this task's changes are attributed."""
    return _caller.get()


async def note(events: AuditRepository, change: Change) -> None:
    """Write an audit event in the transaction of `events`, which must also make the change."""
    await events.add(acting(), change)


def whatever(_current: object) -> None:
    """Accept every state."""


class AuditService:
    """Reads audit events; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, wanted: AuditFilter, *, limit: int, after: int | None
    ) -> Sequence[AuditEvent]:
        """Return the newest `limit` events; with `after`, an id, only those before that event."""
        async with self._database.transaction() as session:
            return await AuditRepository(session).page(wanted, limit=limit, before_id=after)
