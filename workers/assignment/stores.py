"""The parts of the database that a worker uses: changes, heartbeats, reports, circuits, notes."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.access.keys import Caller
from app.domain.catalogue.changes import Changes, LastChange
from app.domain.catalogue.subscription import State, Subscription
from app.domain.circuit import SharedCircuit
from app.domain.errors import NotFoundError
from app.domain.runtime.ping import Ping, Pong
from app.domain.runtime.rate_sharing import RateNote
from app.domain.runtime.receipt import Receipt
from app.domain.status import CursorStatus, SubscriptionLoad, WorkerStatus
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import changes_since
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from app.storage.health.workers import WorkerRepository
from app.storage.notices import Notices
from app.storage.runtime.circuits import CircuitRepository
from app.storage.runtime.pings import notify_pong
from app.storage.runtime.rate_notes import RateNoteRepository
from app.storage.runtime.receipts import notify_receipts

# The author of a suspension by a worker, as shown in audit events.
WORKER: Final = Caller(name="worker")


class DatabaseChanges:
    """Reads changes from the database, and waits for the notifications of the database."""

    def __init__(self, database: Database, notices: Notices) -> None:
        self._database = database
        self._notices = notices

    async def since(self, last: LastChange) -> Changes:
        """Return the changes after the change `last`; everything if it is of another server."""
        return await changes_since(self._database, last)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be new changes, but not longer than `at_most`."""
        await self._notices.wait(at_most)


class DatabaseStatus:
    """Writes heartbeats and reports of one worker into the database."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._database = database
        self._worker_id = worker_id
        self._started_at = datetime.now(UTC)

    async def beat(self, *, applied: LastChange, partitions: int) -> None:
        """Write the heartbeat of this worker.

        A change of another server than the one that answers does not count as applied.
        """
        status = WorkerStatus(
            id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            applied_change=applied.number,
            partitions=partitions,
            started_at=self._started_at,
            seen_at=datetime.now(UTC),
        )
        async with self._database.transaction() as session:
            await WorkerRepository(session).beat(status, server=applied.server)

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        """Write the current state of cursors, and the loads of subscriptions."""
        async with self._database.transaction() as session:
            await StatusRepository(session).write(cursors, loads)

    async def cursors(self, subscription_id: str) -> Collection[CursorStatus] | None:
        """Return the cursors as last reported. Return None if the subscription does not exist."""
        async with self._database.transaction() as session:
            if not await SubscriptionRepository(session).exists(subscription_id):
                return None
            return await StatusRepository(session).cursors(subscription_id)

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        """Send receipts to the processes that wait for them. `receipts` has them by process."""
        async with self._database.transaction() as session:
            await notify_receipts(session, receipts)

    async def remove(self) -> None:
        """Delete this worker from the database, because it has stopped."""
        async with self._database.transaction() as session:
            await WorkerRepository(session).remove(self._worker_id)


class DatabaseCircuits:
    """Reads and publishes shared circuits, and waits for the notifications of the database."""

    def __init__(self, database: Database, notices: Notices, worker_id: str) -> None:
        self._database = database
        self._notices = notices
        self._worker_id = worker_id

    async def read(self, names: Collection[str]) -> Collection[SharedCircuit]:
        """Return the published circuits with these names."""
        async with self._database.transaction() as session:
            return await CircuitRepository(session).read(names)

    async def publish(self, circuit: SharedCircuit) -> int | None:
        """Publish the state of the circuit.

        Returns:
            The number of this change. None if another worker has published a change first.
        """
        async with self._database.transaction() as session:
            return await CircuitRepository(session).write(circuit)

    async def lease(self, circuit: SharedCircuit, *, length: timedelta) -> bool:
        """Reserve the right to send the circuit's probe for this worker, for the time `length`.

        Return whether this worker has the right now.
        """
        async with self._database.transaction() as session:
            circuits = CircuitRepository(session)
            return await circuits.lease(circuit, self._worker_id, length=length)

    async def release(self, name: str) -> None:
        """Give up the right to send the circuit's probe, so that another worker can get it."""
        async with self._database.transaction() as session:
            await CircuitRepository(session).release(name, self._worker_id)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until another worker has published a change, but not longer than `at_most`."""
        await self._notices.wait(at_most)


class DatabaseNotes:
    """Writes one worker's notes into the database, and reads the notes of other workers."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._database = database
        self._worker_id = worker_id

    async def others(self) -> Collection[RateNote]:
        """Return the last note of each other worker about each subscription."""
        async with self._database.transaction() as session:
            return await RateNoteRepository(session).others(self._worker_id)

    async def leave_notes(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        """Store these notes, and remove this worker's notes about the subscriptions in `drop`."""
        async with self._database.transaction() as session:
            repository = RateNoteRepository(session)
            await repository.write(notes)
            if drop:
                await repository.drop(self._worker_id, drop)


class DatabasePongs:
    """Sends the results of pings through the database to the processes that requested them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def post(self, ping: Ping, pong: Pong) -> None:
        """Send the result to the process that requested the ping."""
        async with self._database.transaction() as session:
            await notify_pong(session, ping, pong)


def _suspended(stored: Subscription, reason: str) -> Change:
    return Change(
        action=Action.UPDATED,
        kind="subscription",
        name=f"{stored.topic}/{stored.name}",
        before={"state": stored.state.value},
        after={"state": State.SUSPENDED.value, "stateReason": reason},
    )


class DatabaseSuspensions:
    """Suspends subscriptions in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def suspend(self, subscription: Subscription, reason: str) -> bool:
        """Suspend the subscription, unless it was changed or deleted since this version of it.

        Returns:
            Whether this call suspended the subscription.
        """
        async with self._database.transaction() as session:
            subscriptions = SubscriptionRepository(session)
            try:
                stored = await subscriptions.get(
                    subscription.topic, subscription.name, for_update=True
                )
            except NotFoundError:
                return False
            if (stored.id, stored.change) != (subscription.id, subscription.change):
                return False
            await subscriptions.set_state(stored.in_state(State.SUSPENDED, reason=reason))
            await AuditRepository(session).add(WORKER, _suspended(stored, reason))
        return True
