"""The database of simulated workers. It may be slow or down, and its answers may be lost."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from app.domain.catalogue.changes import Changes, LastChange
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import SharedCircuit
from app.domain.discards.retractions import Entry
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.domain.runtime.rate_sharing import RateNote
from app.domain.runtime.receipt import Receipt
from app.domain.status import CursorStatus, SubscriptionLoad, WorkerStatus
from app.services.applied_changes import LIVE_WITHIN, AppliedChanges
from app.tracing.packs import Pack
from tests.fakes.circuits import CircuitTalk
from tests.fakes.signal import Signal
from tests.fakes.worker import ControlPlane, WorkerDatabase, WorkerTraces
from tests.simulation.history import History, Measured
from tests.simulation.remote import Remote, Reply
from tests.simulation.virtual_loop import virtual

T = TypeVar("T")


@dataclass(slots=True)
class SimulatedPlane(ControlPlane):
    """The contents of the database. `seen` has the time of each worker's last heartbeat."""

    seen: dict[str, float] = field(default_factory=dict)
    noticed: Signal = field(default_factory=Signal)

    def keep(self, entry: Entry) -> None:
        """Store a discard or a retraction.

        Of several discards of one message at one position, only the last is listed, as by the key
        of the real table.
        """
        before = [*self.undelivered]
        super(SimulatedPlane, self).keep(entry)
        # A retracted discard is not listed, so it replaces no other.
        if isinstance(entry, Undelivered) and len(self.undelivered) > len(before):
            others = [each for each in before if _place(each) != _place(entry)]
            self.undelivered[:] = [*others, entry]

    def notify(self) -> None:
        """Tell all processes that listen that something has changed."""
        self.noticed.send()

    async def live(self) -> Sequence[WorkerStatus]:
        """Return the workers whose last heartbeat is recent enough."""
        oldest = virtual().time() - LIVE_WITHIN.total_seconds()
        now = datetime.now(UTC)
        return [
            WorkerStatus(
                id=name, host="", pid=0, applied_change=self.beats[name], partitions=0,
                started_at=now, seen_at=now,
            )
            for name, at in self.seen.items()
            if at >= oldest and name in self.beats
        ]  # fmt: skip


class SimulatedDatabase(WorkerDatabase):
    """The database as one worker uses it."""

    def __init__(self, plane: SimulatedPlane, remote: Remote, history: History) -> None:
        super().__init__(plane, remote.process)
        self.plane = plane
        self._remote = remote
        self._history = history
        self.applied: AppliedChanges | None = None

    async def since(self, last: LastChange) -> Changes:
        return await self._done(lambda: super(SimulatedDatabase, self).since(last))

    async def wait(self, at_most: timedelta) -> None:
        await self.plane.noticed.wait(at_most.total_seconds())

    async def beat(self, *, applied: LastChange, partitions: int) -> None:
        await self._done(
            lambda: super(SimulatedDatabase, self).beat(applied=applied, partitions=partitions)
        )
        self.plane.seen[self._remote.process] = virtual().time()
        if self.applied is not None:
            self.applied.notice()

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        for load in loads:
            measured = Measured(
                at=virtual().time(),
                worker=self._remote.process,
                incarnation=load.subscription_id,
                in_flight=load.in_flight,
                waiting_retries=load.waiting_retries,
            )
            self._history.add(measured)
        await self._done(lambda: super(SimulatedDatabase, self).write(cursors, loads))

    async def cursors(self, subscription_id: str) -> list[CursorStatus] | None:
        return await self._done(lambda: super(SimulatedDatabase, self).cursors(subscription_id))

    async def suspend(self, subscription: Subscription, reason: str) -> bool:
        return await self._done(
            lambda: super(SimulatedDatabase, self).suspend(subscription, reason)
        )

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        await self._done(lambda: super(SimulatedDatabase, self).post(receipts))

    async def others(self) -> list[RateNote]:
        return await self._done(super().others)

    async def leave_notes(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        await self._done(lambda: super(SimulatedDatabase, self).leave_notes(notes, drop))

    async def remove(self) -> None:
        await self._done(super().remove)
        self.plane.seen.pop(self._remote.process, None)

    async def positions(self) -> Mapping[Partition, int]:
        return await self._done(super().positions)

    async def record(
        self, rows: Sequence[Entry], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        return await self._done(
            lambda: super(SimulatedDatabase, self).record(rows, stream, next_offset, start=start)
        )

    async def _done(self, act: Callable[[], Awaitable[T]]) -> T:
        return await done(self._remote, act)


class SimulatedTraces(WorkerTraces):
    """The table of traces as one worker uses it."""

    def __init__(self, plane: SimulatedPlane, remote: Remote) -> None:
        super().__init__(plane)
        self.plane = plane
        self._remote = remote

    async def positions(self) -> Mapping[Partition, int]:
        return await done(self._remote, super().positions)

    async def record(
        self, rows: Sequence[Pack], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        return await done(
            self._remote,
            lambda: super(SimulatedTraces, self).record(rows, stream, next_offset, start=start),
        )


class SimulatedCircuits(CircuitTalk):
    """The table of shared circuits as one worker uses it."""

    def __init__(self, plane: SimulatedPlane, remote: Remote) -> None:
        super().__init__(plane, remote.process)
        self._remote = remote

    async def read(self, names: Collection[str]) -> list[SharedCircuit]:
        return await done(self._remote, lambda: super(SimulatedCircuits, self).read(names))

    async def publish(self, circuit: SharedCircuit) -> int | None:
        return await done(self._remote, lambda: super(SimulatedCircuits, self).publish(circuit))

    async def lease(self, circuit: SharedCircuit, *, length: timedelta) -> bool:
        return await done(
            self._remote, lambda: super(SimulatedCircuits, self).lease(circuit, length=length)
        )

    async def release(self, name: str) -> None:
        await done(self._remote, lambda: super(SimulatedCircuits, self).release(name))


def _place(discard: Undelivered) -> tuple[str, int, int, str]:
    return discard.subscription_id, discard.partition, discard.offset, discard.message_id


async def done(remote: Remote, act: Callable[[], Awaitable[T]]) -> T:
    """Let the database do `act`, which must not wait, and return its result."""

    def serve(reply: Reply[T]) -> None:
        step = act().__await__()
        try:
            next(step)
        except StopIteration as over:
            reply.give(over.value)
        except StorageUnavailableError as error:
            reply.fail(error)
        else:
            raise AssertionError("the database in memory does not wait")

    return await remote.ask(serve)
