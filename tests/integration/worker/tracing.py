"""Traces as workers leave them, for tests: what packs say, as it will be found."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.catalogue.subscription import Subscription
from app.domain.trace import TraceEntry, TraceStatus, TrackingMode, timeline
from app.tracing.packs import Pack, TraceRow
from tests.fakes.worker import World

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tracked(
    world: World, subscription: Subscription, mode: TrackingMode = TrackingMode.ALL
) -> Subscription:
    """The subscription, with what is traced of it."""
    return world.plane.put(replace(subscription, tracking=mode))


def entries_of(packs: Iterable[Pack]) -> Sequence[TraceEntry]:
    """All entries, each attempt with its beginning, oldest first."""
    return timeline(_entry(TraceRow(*row), pack) for pack in packs for row in pack.rows)


def statuses(world: World, message_id: str = "") -> list[str]:
    """What is recorded of a message, or of all."""
    entries = entries_of(world.plane.traces)
    return [each.status.value for each in entries if message_id in {"", each.message_id}]


async def until_traced(world: World, *wanted: str) -> None:
    """Wait until these statuses, and no others, are recorded, in this order."""
    await world.plane.until(lambda: statuses(world) == list(wanted))


def _entry(row: TraceRow, pack: Pack) -> TraceEntry:
    spans: dict[str, Any] = {
        name: None if value is None else timedelta(microseconds=value)
        for name, value in row._asdict().items()
        if name in {"queued", "waited", "connect", "took"}
    }
    return TraceEntry(
        source=pack.sources[row.source],
        message_id=row.message_id,
        at=_EPOCH + timedelta(microseconds=row.at),
        status=TraceStatus(row.status),
        partition=row.partition,
        offset=row.offset,
        attempt=row.attempt,
        status_code=row.status_code,
        reason=row.reason,
        worker=pack.worker,
        address=row.address,
        batch_id=row.batch_id,
        retransmission=row.retransmission,
        **spans,
    )
