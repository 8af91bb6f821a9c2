"""Stores alerts: active alerts, past alerts, and alerts that are not published yet."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.health.alerts import Alert, AlertKind
from app.storage.paging import older_than
from app.storage.tables import AlertRow as Row

_AGE: Final = (Row.raised_at, Row.id)
# The maximum number of alerts that one transaction marks or deletes.
AT_ONCE: Final = 1_000
# The alerts of kinds that this version knows. During an upgrade, processes of a newer version may
# raise alerts of other kinds.
_KNOWN: Final = Row.kind.in_(list(AlertKind))


class Announcement(NamedTuple):
    """An alert to publish. `raised` means that its start is not published yet."""

    alert: Alert
    raised: bool


class AlertRepository:
    """Stores alerts. A subscription has at most one active alert of each kind.

    Alerts of unknown kinds are ignored. The version that raised them will clear them.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def active(self) -> Sequence[Alert]:
        """Return the active alerts, the oldest first."""
        query = select(Row).where(Row.cleared_at.is_(None), _KNOWN)
        rows = await self._session.scalars(query.order_by(Row.raised_at, Row.id))
        return [_alert_of(row) for row in rows]

    async def newest(
        self, limit: int, *, active: bool, after: str | None = None
    ) -> Sequence[Alert]:
        """Return the newest alerts; only active alerts if `active` is true.

        With `after`, return only alerts older than the alert with that id.

        Raises:
            ValidationFailedError: No alert has the id `after`.
        """
        query = select(Row).where(_KNOWN).order_by(*(each.desc() for each in _AGE)).limit(limit)
        query = query.where(Row.cleared_at.is_(None)) if active else query
        if after is not None:
            query = query.where(await older_than(self._session, _AGE, after))
        return [_alert_of(row) for row in await self._session.scalars(query)]

    async def raise_(self, alerts: Sequence[Alert]) -> None:
        """Store these new alerts. They are then active, and must be published."""
        if alerts:
            await self._session.execute(insert(Row), [_raised(alert) for alert in alerts])

    async def clear(self, alerts: Sequence[Alert]) -> None:
        """Store that these alerts have ended, and that their ends must be published."""
        if alerts:
            over = [{"id": alert.id, "cleared_at": alert.cleared_at} for alert in alerts]
            await self._session.execute(update(Row), over)

    async def unannounced(self) -> Sequence[Announcement]:
        """Return the alerts that must be published, in order, at most AT_ONCE."""
        waits = (Row.announced < 1) | ((Row.announced < 2) & Row.cleared_at.is_not(None))  # noqa: PLR2004 - AlertRow explains these numbers
        query = select(Row).where(waits, _KNOWN).order_by(Row.raised_at, Row.id).limit(AT_ONCE)
        rows = await self._session.scalars(query)
        return [Announcement(_alert_of(row), raised=row.announced < 1) for row in rows]

    async def announced(self, alerts: Sequence[Alert]) -> None:
        """Mark these alerts as published in their current state, active or ended."""
        for over in (False, True):
            ids = [alert.id for alert in alerts if (alert.cleared_at is not None) is over]
            statement = update(Row).where(Row.id.in_(ids)).values(announced=2 if over else 1)
            await self._session.execute(statement)

    async def drop_older(self, kept: timedelta) -> int:
        """Delete alerts that ended more than `kept` ago, at most AT_ONCE; return how many."""
        old = select(Row.id).where(Row.cleared_at < func.clock_timestamp() - kept).limit(AT_ONCE)
        dropped = delete(Row).where(Row.id.in_(old)).returning(Row.id)
        return len((await self._session.scalars(dropped)).all())


def _raised(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "kind": alert.kind.value,
        "subscription_id": alert.subscription_id,
        "topic": alert.topic,
        "subscription": alert.subscription,
        "description": alert.description,
        "details": dict(alert.details),
        "raised_at": alert.raised_at,
    }


def _alert_of(row: Row) -> Alert:
    return Alert(
        id=row.id,
        kind=AlertKind(row.kind),
        subscription_id=row.subscription_id,
        topic=row.topic,
        subscription=row.subscription,
        description=row.description,
        details=row.details,
        raised_at=row.raised_at,
        cleared_at=row.cleared_at,
    )
