"""Audit events: written with the changes that they describe, and searched."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from app.domain.access.audit import AuditEvent, AuditFilter, Change
from app.domain.access.keys import EVERYBODY, Caller
from app.storage.access.audit import AuditRepository
from app.storage.database import Database

_T = TypeVar("_T")
# A function that describes a topic, a subscription or another resource for audit events. The
# description has the form of a response of the API, so it has no secrets.
Describe = Callable[[_T], Mapping[str, Any]]
# A function that raises an error if a resource is not in the state that a request expects.
Check = Callable[[_T], None]

# The caller of the current request. The caller is set once at the start of the request, so that
# functions do not need an argument for the caller.
_caller: Final[ContextVar[Caller]] = ContextVar("caller", default=EVERYBODY)


def act_as(caller: Caller) -> None:
    """Name `caller` in the audit events of all further changes of this task."""
    _caller.set(caller)


def acting() -> Caller:
    """Return the caller who is named in the audit events of this task."""
    return _caller.get()


async def note(events: AuditRepository, change: Change) -> None:
    """Write an audit event of the change in the transaction that `events` uses.

    The caller of this function must make the change in the same transaction.
    """
    await events.add(acting(), change)


def whatever(_current: object) -> None:
    """Accept every state of a resource. Requests that expect no special state use this check."""


class AuditService:
    """Reads audit events; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, wanted: AuditFilter, *, limit: int, after: int | None
    ) -> Sequence[AuditEvent]:
        """Return the newest events that match `wanted`, at most `limit`.

        With `after` (an event's id), only older events are returned.
        """
        async with self._database.transaction() as session:
            return await AuditRepository(session).page(wanted, limit=limit, before_id=after)
