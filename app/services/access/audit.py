"""Audit events: written with the changes they tell of, and looked through."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from app.domain.access.audit import AuditEvent, AuditFilter, Change
from app.domain.access.keys import EVERYBODY, Caller
from app.storage.access.audit import AuditRepository
from app.storage.database import Database

_T = TypeVar("_T")
# What a resource is, for audit events: as it is answered, so without its secrets.
Describe = Callable[[_T], Mapping[str, Any]]
# Raises unless the resource is what the request was made for.
Check = Callable[[_T], None]

# Who the current request is from: said once where it comes in, rather than by every signature.
_caller: Final[ContextVar[Caller]] = ContextVar("caller", default=EVERYBODY)


def act_as(caller: Caller) -> None:
    """What this task changes from now on, `caller` does."""
    _caller.set(caller)


def acting() -> Caller:
    """Who changes what this task changes."""
    return _caller.get()


async def note(events: AuditRepository, change: Change) -> None:
    """Write an audit event, in the transaction of `events`, which is to make the change."""
    await events.add(acting(), change)


def whatever(_current: object) -> None:
    """The check that passes everything."""


class AuditService:
    """Looks through the events; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, wanted: AuditFilter, *, limit: int, after: int | None
    ) -> Sequence[AuditEvent]:
        """The newest `limit` events; `after` an id: those before that event."""
        async with self._database.transaction() as session:
            return await AuditRepository(session).page(wanted, limit=limit, before_id=after)
