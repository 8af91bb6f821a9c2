"""The table of retransmissions in the simulated database. A retransmission is held by a lease."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import StorageUnavailableError
from app.domain.message import Record
from app.domain.replay.retransmission import MessageRun, RetransmissionState, Sent
from app.domain.replay.sending_rate import Sending
from tests.simulation.control_plane import SimulatedPlane
from tests.simulation.remote import Remote
from tests.simulation.virtual_loop import virtual
from tests.simulation.witness import FEEDS

# While requests of a worker to the database are lost, so many of its reports of appended messages
# are lost in addition. Then another worker must read the messages back.
REPORTS_LOST: Final = 0.5


@dataclass(slots=True)
class Row:
    """One retransmission, with its progress. `sent` has the new places by the old ones."""

    sending: Sending
    runs: Sequence[MessageRun]
    state: RetransmissionState = RetransmissionState.SENDING
    worker: str = ""
    lease_until: float = 0.0
    written: int = 0
    finished: int = 0
    sent: dict[tuple[int, int], Sent] = field(default_factory=dict)


class SimulatedSendings:
    """All retransmissions. They are in the order in which they were requested."""

    def __init__(self, plane: SimulatedPlane) -> None:
        self.plane = plane
        self.rows: dict[str, Row] = {}
        # The chosen discards, by the number of their row.
        self.discards: dict[int, Undelivered] = {}
        # Which retransmission has sent a discard again, by subscription, partition and offset.
        self.marks: dict[tuple[str, int, int], str] = {}

    def of(self, worker: str, remote: Remote) -> "WorkerSendings":
        """Return the retransmissions as one worker uses them."""
        return WorkerSendings(self, worker, remote)

    def unfinished(self) -> Iterator[str]:
        """Yield the ids of the retransmissions that are sent."""
        return (each.sending.id for each in self.rows.values() if self.is_open(each))

    def is_open(self, row: Row) -> bool:
        """Whether the retransmission is sent, and was not cancelled."""
        return row.state is RetransmissionState.SENDING and not self.is_cancelled(row)

    def is_cancelled(self, row: Row) -> bool:
        """Whether an operator has cancelled the retransmission, or deleted its subscription."""
        subscription = self.plane.subscriptions.get(row.sending.subscription_id)
        dropped = subscription is None or row.sending.id in subscription.dropped
        return row.state is RetransmissionState.SENDING and dropped


class WorkerSendings:
    """The retransmissions as one worker uses them. Every answer takes time, and may be lost."""

    def __init__(self, every: SimulatedSendings, worker: str, remote: Remote) -> None:
        self._all = every
        self._worker = worker
        self._remote = remote

    async def take(self, lease: timedelta) -> Sending | None:
        # Whatever this task reads from the log, or a task that it starts, is read for a feed.
        FEEDS.set(True)
        return await self._remote.call(lambda: self._taken(lease))

    def _taken(self, lease: timedelta) -> Sending | None:
        now, busy = virtual().time(), set[str]()
        for row in filter(self._all.is_open, self._all.rows.values()):
            subscription = row.sending.subscription_id
            if subscription not in busy and row.lease_until < now:
                row.worker, row.lease_until = self._worker, now + lease.total_seconds()
                return row.sending
            busy.add(subscription)
        return None

    async def keep(self, sending: Sending, finished: int, lease: timedelta) -> bool:
        def keep() -> bool:
            if (row := self._mine(sending)) is None:
                return False
            row.lease_until = virtual().time() + lease.total_seconds()
            row.finished = finished
            return True

        return await self._remote.call(keep)

    async def subscription(self, sending: Sending) -> Subscription | None:
        return await self._remote.call(
            lambda: self._all.plane.subscriptions.get(sending.subscription_id)
        )

    async def sources(self, sending: Sending) -> Mapping[int, int]:
        def sources() -> Mapping[int, int]:
            row = self._row(sending)
            first: dict[int, int] = {}
            for run in row.runs:
                first[run.partition] = min(first.get(run.partition, run.start), run.start)
            for partition, offset in sorted(row.sent):
                first[partition] = offset + 1
            return first

        return await self._remote.call(sources)

    async def ends(self, sending: Sending) -> Mapping[int, int]:
        def ends() -> Mapping[int, int]:
            found: dict[int, int] = {}
            for each in self._row(sending).sent.values():
                found[each.partition] = max(found.get(each.partition, 0), each.offset + 1)
            return found

        return await self._remote.call(ends)

    async def sent_from(self, sending: Sending, partition: int, offset: int) -> Sequence[int]:
        return await self._remote.call(
            lambda: sorted(
                each.offset
                for each in self._row(sending).sent.values()
                if each.partition == partition and each.offset >= offset
            )
        )

    async def runs(
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]:
        return await self._remote.call(
            lambda: [
                run
                for run in self._row(sending).runs
                if run.partition == partition and run.end > offset
            ][:limit]
        )

    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        listed = self._all.plane.undelivered
        return await self._remote.call(
            lambda: {
                row: self._all.discards[row] for row in rows if self._all.discards[row] in listed
            }
        )

    async def archived(
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]:
        raise NotImplementedError  # the simulated topics have no archive

    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool:
        def record() -> bool:
            row = self._row(sending)
            added = [each for each in sent if each[:2] not in row.sent]
            row.sent.update({each[:2]: each for each in added})
            if self._mine(sending) is None:
                return False
            row.written += len(added)
            for each in sent:
                place = sending.subscription_id, each.source_partition, each.source_offset
                self._mark(place, sending.id)
            return True

        service = self._remote.service
        if service.link(self._remote.process).loss and service.random.random() < REPORTS_LOST:
            raise StorageUnavailableError("the connection to the database is lost")
        return await self._remote.call(record)

    async def written(self, sending: Sending) -> int:
        return await self._remote.call(lambda: self._row(sending).written)

    async def end(
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None:
        del reason

        def end() -> None:
            if (row := self._mine(sending)) is not None:
                row.state = state

        await self._remote.call(end)

    async def release(self, sending: Sending) -> None:
        def release() -> None:
            if (row := self._mine(sending)) is not None:
                row.worker, row.lease_until = "", 0.0

        await self._remote.call(release)

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        def unmark() -> None:
            row = self._all.rows[retransmission_id]
            for each in row.sent.values():
                place = row.sending.subscription_id, each.source_partition, each.source_offset
                marked = self._all.marks.get(place) == retransmission_id
                if marked and (each.partition, each.offset) in positions:
                    del self._all.marks[place]

        await self._remote.call(unmark)

    def _mark(self, place: tuple[str, int, int], retransmission_id: str) -> None:
        before = self._all.marks.get(place)
        if before is None or self._all.is_cancelled(self._all.rows[before]):
            self._all.marks[place] = retransmission_id

    def _row(self, sending: Sending) -> Row:
        return self._all.rows[sending.id]

    def _mine(self, sending: Sending) -> Row | None:
        row = self._row(sending)
        mine = row.worker == self._worker and self._all.is_open(row)
        return row if mine else None
