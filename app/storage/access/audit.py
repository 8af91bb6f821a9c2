"""Stores audit events in the database."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from operator import eq, ge, lt
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.access.audit import Action, AuditEvent, AuditFilter, Change
from app.domain.access.keys import Caller
from app.storage.tables import AuditEventRow

# The maximum number of audit events that one transaction deletes.
DROP_MAX: Final = 5_000


class AuditRepository:
    """Stores and lists audit events, newest first."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, by: Caller, change: Change) -> None:
        """Add the audit event of a change.

        The caller makes the change in the same transaction. So either both are stored, or neither.
        """
        states = {"before": change.before, "after": change.after}
        values = {
            "actor": by.name,
            "key_id": by.key_id,
            "action": change.action.value,
            "kind": change.kind,
            "name": change.name,
            # Leave out a state before or after the change that is None. Otherwise the database
            # would store it as a JSON null.
            **{name: dict(state) for name, state in states.items() if state is not None},
        }
        await self._session.execute(insert(AuditEventRow).values(values))

    async def page(
        self, wanted: AuditFilter, *, limit: int, before_id: int | None
    ) -> Sequence[AuditEvent]:
        """Return the newest events that match `wanted`; with `before_id`, only with a lower id."""
        query = select(AuditEventRow).order_by(AuditEventRow.id.desc()).limit(limit)
        for condition in _conditions(wanted, before_id):
            query = query.where(condition)
        return [_event_of(row) for row in await self._session.scalars(query)]

    async def changed(
        self,
        resources: Collection[tuple[str, str]],
        *,
        since: datetime,
        until: datetime,
        limit: int,
    ) -> Sequence[AuditEvent]:
        """Return the newest audit events about updates of these resources from `since` to `until`.

        `resources` has the kind and the name of each resource.
        """
        row = AuditEventRow
        query = select(row).where(
            row.action == Action.UPDATED.value,
            row.at >= since,
            row.at < until,
            tuple_(row.kind, row.name).in_(resources),
        )
        found = await self._session.scalars(query.order_by(row.id.desc()).limit(limit))
        return [_event_of(each) for each in found]

    async def drop_older(self, kept: timedelta) -> int:
        """Delete events that are older than `kept`, at most DROP_MAX of them.

        Return the number of deleted events.
        """
        old = (
            select(AuditEventRow.id)
            .where(AuditEventRow.at < func.clock_timestamp() - kept)
            .limit(DROP_MAX)
        )
        dropped = delete(AuditEventRow).where(AuditEventRow.id.in_(old)).returning(AuditEventRow.id)
        return len((await self._session.scalars(dropped)).all())


def _conditions(wanted: AuditFilter, before_id: int | None) -> list[ColumnElement[bool]]:
    row = AuditEventRow
    requested: list[tuple[Any, Callable[[Any, Any], Any], object]] = [
        (row.kind, eq, wanted.kind),
        (row.name, eq, wanted.name),
        (row.actor, eq, wanted.actor),
        (row.action, eq, wanted.action),
        (row.at, ge, wanted.since),
        (row.at, lt, wanted.until),
        (row.id, lt, before_id),
    ]
    return [compare(column, value) for column, compare, value in requested if value is not None]


def _event_of(row: AuditEventRow) -> AuditEvent:
    return AuditEvent(
        id=row.id,
        at=row.at,
        actor=row.actor,
        key_id=row.key_id,
        change=Change(
            action=Action(row.action),
            kind=row.kind,
            name=row.name,
            before=row.before,
            after=row.after,
        ),
    )
