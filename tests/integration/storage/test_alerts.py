"""Alerts as they are stored."""

from datetime import UTC, datetime

from sqlalchemy import text

from app.domain.health.alerts import Alert, AlertKind
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def an_alert(alert_id: str, kind: AlertKind) -> Alert:
    return Alert(
        id=alert_id,
        kind=kind,
        subscription_id="s-1",
        topic="shop.orders",
        subscription="billing",
        description="something is so",
        details={},
        raised_at=NOON,
    )


async def test_a_kind_that_only_a_newer_version_knows_is_left_to_that(database: Database) -> None:
    known = an_alert("a-1", AlertKind.SUSPENDED)
    async with database.transaction() as session:
        alerts = AlertRepository(session)
        await alerts.raise_([known, an_alert("a-2", AlertKind.HEARTBEAT)])
        await session.execute(text("UPDATE alerts SET kind = 'OF_TOMORROW' WHERE id = 'a-2'"))
    async with database.transaction() as session:
        alerts = AlertRepository(session)
        assert await alerts.active() == [known]
        assert await alerts.newest(10, active=False) == [known]
        assert [each.alert for each in await alerts.unannounced()] == [known]
