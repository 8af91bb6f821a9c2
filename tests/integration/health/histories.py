"""Histories of metrics on a real database: workers report, minutes pass, and are recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from app.domain.catalogue.subscription import Subscription
from app.domain.metrics.attempts import AttemptTotals
from app.domain.metrics.samples import ATTEMPTS, DURATIONS
from app.services.metrics.history import (
    HistoryPoint,
    MetricsHistory,
    MetricsHistoryService,
    RequestedHistory,
)
from app.services.metrics.history_recorder import HistoryRecorder
from app.services.pruning import Pruner
from app.storage.database import Database
from tests.fakes.memory_log import MemoryLog
from tests.integration.health.watched import Watched
from tests.integration.storage.builders import TOPIC, a_cursor, a_load, report

# Shortly after noon: the minute before it is recorded already.
NOON = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def attempts(since_ms: int = 1, *, within: Sequence[int] = (), **counts: int) -> AttemptTotals:
    """The numbers of attempts that a worker reports."""
    durations = (*within, *[0] * (DURATIONS - len(within)))
    return AttemptTotals(since_ms, (*[counts.get(name, 0) for name in ATTEMPTS], *durations))


@dataclass
class Histories:
    """Time goes on only when a test says so."""

    database: Database
    watched: Watched
    now: datetime = NOON
    _recorders: dict[str, HistoryRecorder] = field(default_factory=dict)

    @property
    def log(self) -> MemoryLog:
        return self.watched.log

    def recorder(self, name: str = "") -> HistoryRecorder:
        if name not in self._recorders:
            recorder = HistoryRecorder(self.database, self.log, clock=lambda: self.now)
            self._recorders[name] = recorder
        return self._recorders[name]

    async def counted(
        self,
        subscription: Subscription,
        *,
        worker: str = "w-1",
        tried: AttemptTotals | None = None,
        **numbers: Any,  # noqa: ANN401 - fields of the value
    ) -> None:
        """A worker reports a cursor of the subscription, and its attempts."""
        nothing = dict.fromkeys(("offset", "end", "delivered", "discarded", "volume"), 0)
        cursor = a_cursor(subscription.id, **{**nothing, "topic": subscription.topic, **numbers})
        load = a_load(subscription.id, worker, attempts=tried)
        await report(self.database, load, cursors=[cursor])

    async def pass_by(self, span: timedelta = MINUTE, *, recorder: str = "") -> None:
        """Let time go by; what was counted before is in the last minute of it."""
        known = self.recorder(recorder)
        self.now += span
        await known.look()

    async def of(self, subscription: Subscription, **wanted: Any) -> MetricsHistory:  # noqa: ANN401 - fields
        service = MetricsHistoryService(self.database, self.log, clock=lambda: self.now)
        requested = RequestedHistory(**wanted)
        return await service.subscription(subscription.topic, subscription.name, requested)

    async def of_topic(self, topic: str = TOPIC, **wanted: Any) -> MetricsHistory:  # noqa: ANN401 - fields
        service = MetricsHistoryService(self.database, self.log, clock=lambda: self.now)
        return await service.topic(topic, RequestedHistory(**wanted))

    async def prune(self) -> None:
        await Pruner(self.database, undelivered_kept=DAY, clock=lambda: self.now).prune()

    async def count(self, query: str) -> int:
        async with self.database.transaction() as session:
            return int(await session.scalar(text(query)) or 0)


def shown(points: Sequence[HistoryPoint], name: str = "delivered") -> list[tuple[str, int]]:
    """The points by their times, with one of their counts."""
    return [(f"{each.start:%d %H:%M}", each.sample.count(name)) for each in points]
