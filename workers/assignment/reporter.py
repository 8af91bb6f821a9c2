"""Reports to the database each second: a heartbeat, and the positions of the cursors."""

import asyncio
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from itertools import compress
from typing import Final, Protocol

import structlog

from app.domain.catalogue.changes import LastChange
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.status import CursorStatus, SubscriptionLoad
from app.domain.streams import OWN
from app.outages import Outage
from app.storage.slices import made_of
from workers.consumer.commit.cursor import Cursor
from workers.consumer.subscription_consumer import SubscriptionConsumer
from workers.consumer.subscription_consumers import CursorKey, SubscriptionConsumers

INTERVAL: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class StatusStore(Protocol):
    """The store of reports. Both methods may raise UnavailableError."""

    async def beat(self, *, applied: LastChange, partitions: int) -> None:
        """Write the heartbeat of this worker. `partitions` counts its partitions of topics."""

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        """Write the current state of cursors, and the loads of subscriptions."""


class WorkerState(Protocol):
    """The state of the worker that its heartbeat reports."""

    @property
    def applied(self) -> LastChange | None:
        """The last change that is in effect in this worker; None before the first."""

    @property
    def on_applied(self) -> asyncio.Event:
        """An event that is set each time a change takes effect."""

    @property
    def owned(self) -> Collection[Partition]:
        """The owned partitions, with those of Angelia's own streams."""


class Reporter:
    """Writes reports. Nothing waits for a report. If one fails, the next one has the same facts."""

    def __init__(
        self,
        worker_id: str,
        consumers: SubscriptionConsumers,
        store: StatusStore,
        *,
        interval: timedelta = INTERVAL,
    ) -> None:
        self._worker_id = worker_id
        self._interval = interval
        self._consumers = consumers
        self._store = store
        self._busy_consumers: set[str] = set()
        self._outage = Outage(_log, "report_failed")

    async def run(self, state: WorkerState) -> None:
        """Write a report at each interval, and immediately when a change has taken effect."""
        while True:
            await self._wait(state.on_applied)
            await self._try_report(state)

    async def report(self, state: WorkerState) -> None:
        """Write a heartbeat, and the positions and loads that have changed.

        Raises:
            UnavailableError: The database cannot be reached.
        """
        if state.applied is not None:
            # Leave out Angelia's own streams, because users look for what is delivered.
            partitions = sum(each.topic not in OWN for each in state.owned)
            await self._store.beat(applied=state.applied, partitions=partitions)
        await self.write(self._consumers.unreported())

    async def write(self, cursors: Collection[tuple[CursorKey, Cursor]]) -> None:
        """Write the cursor positions and the loads.

        Raises:
            UnavailableError: The database cannot be reached.
        """
        try:
            statuses = await made_of(cursors, self._taken)
            loads = await self._loads()
            if statuses or loads:
                await self._store.write(statuses, loads)
        except UnavailableError:
            for _, cursor in cursors:
                cursor.unreported = True
            raise

    async def _wait(self, applied: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._interval.total_seconds()):
                await applied.wait()
        except TimeoutError:
            return
        applied.clear()

    async def _try_report(self, state: WorkerState) -> None:
        try:
            await self.report(state)
        except UnavailableError as exc:
            self._outage.failed(error=exc.message)
        else:
            self._outage.ended()

    def _taken(self, of: tuple[CursorKey, Cursor]) -> CursorStatus:
        """Return the current position of a cursor. A later commit is in the next report."""
        key, cursor = of
        cursor.unreported = False
        committed = cursor.committed
        return CursorStatus(
            subscription_id=key.subscription_id,
            topic=key.partition.topic,
            partition=key.partition.index,
            worker_id=self._worker_id,
            offset=committed.offset,
            end=cursor.end,
            delivered=committed.delivered,
            discarded=committed.discarded,
            filtered=committed.filtered,
            volume=committed.volume,
            # For a closed cursor, report the committed offset as its position. The next owner takes
            # the messages that this cursor did not finish.
            position=committed.offset if cursor.closing else cursor.position,
        )

    async def _loads(self) -> list[SubscriptionLoad]:
        """Return the load of each consumer that was active in the last minute.

        A consumer that has become inactive is included one last time.
        """
        now, consumers = time.monotonic(), list(self._consumers.consumers())
        are_busy = await made_of(consumers, lambda consumer: _is_busy(consumer, now))
        busy = {consumer.subscription.id for consumer in compress(consumers, are_busy)}
        ids = busy | self._busy_consumers
        reported = [consumer for consumer in consumers if consumer.subscription.id in ids]
        self._busy_consumers = busy
        return await made_of(reported, lambda consumer: self._load(consumer, now))

    def _load(self, consumer: SubscriptionConsumer, now: float) -> SubscriptionLoad:
        return SubscriptionLoad(
            subscription_id=consumer.subscription.id,
            worker_id=self._worker_id,
            window=consumer.counts.window(now),
            in_flight=consumer.in_flight,
            waiting_retries=consumer.waiting_retries,
            counts=consumer.counts.totals(),
            output=consumer.output(),
            failing=consumer.failing.report(),
            attempts=consumer.attempts.report(now, epoch_ms=time.time_ns() // 1_000_000),
        )


def _is_busy(consumer: SubscriptionConsumer, now: float) -> bool:
    return (
        consumer.counts.roll(now)
        or consumer.in_flight > 0
        or consumer.waiting_retries > 0
        or consumer.is_held
        or bool(consumer.unapplied)
        or consumer.hold is not None
    )
