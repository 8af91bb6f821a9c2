"""Retransmissions in memory, as workers send them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import StorageUnavailableError
from app.domain.message import Record
from app.domain.replay.retransmission import MessageRun, RetransmissionState, Sent
from app.domain.replay.sending_rate import Sending
from tests.fakes.signal import Signal


@dataclass(slots=True, kw_only=True)
class Kept:
    """One retransmission, with its messages and its progress."""

    sending: Sending
    runs: Sequence[MessageRun] = ()
    # The records that only the archive has, by partition.
    archived: Mapping[int, Sequence[Record]] = field(default_factory=dict)
    state: RetransmissionState = RetransmissionState.SENDING
    worker: str = ""
    sent: list[Sent] = field(default_factory=list)
    finished: int = 0
    # The positions of the dropped messages that this retransmission had appended to the log.
    unmarked: list[tuple[int, int]] = field(default_factory=list)
    reason: str | None = None


@dataclass(slots=True)
class Sendings:
    """All retransmissions. `subscriptions` are those of the control plane in memory."""

    subscriptions: Mapping[str, Subscription]
    kept: dict[str, Kept] = field(default_factory=dict)
    discards: dict[int, Undelivered] = field(default_factory=dict)
    # Whether reports of dropped messages are accepted; if not, they fail.
    unmarks: bool = True
    refused: int = 0
    # Whether the report of sent messages fails, as if the worker died after its append to the log.
    losing: bool = False
    changed: Signal = field(default_factory=Signal)

    def add(self, kept: Kept) -> Kept:
        self.kept[kept.sending.id] = kept
        self.changed.send()
        return kept

    def cancel(self, kept: Kept) -> None:
        kept.state = RetransmissionState.CANCELLED

    def of(self, worker: str) -> "WorkerSendings":
        return WorkerSendings(self, worker)


class WorkerSendings:
    """The retransmissions as one worker uses them. A lease ends only by `abandon` or `release`."""

    def __init__(self, all_of_them: Sendings, worker: str) -> None:
        self._all = all_of_them
        self._worker = worker

    def abandon(self) -> None:
        for kept in self._all.kept.values():
            if kept.worker == self._worker:
                kept.worker = ""

    async def take(self, lease: timedelta) -> Sending | None:
        del lease
        for kept in self._all.kept.values():
            if kept.state is RetransmissionState.SENDING and not kept.worker:
                kept.worker = self._worker
                return kept.sending
        return None

    async def keep(self, sending: Sending, finished: int, lease: timedelta) -> bool:
        del lease
        if (kept := self._mine(sending)) is None:
            return False
        kept.finished = finished
        self._all.changed.send()
        return True

    async def subscription(self, sending: Sending) -> Subscription | None:
        return self._all.subscriptions.get(sending.subscription_id)

    async def sources(self, sending: Sending) -> Mapping[int, int]:
        kept = self._all.kept[sending.id]
        positions: dict[int, int] = {}
        for run in sorted(kept.runs, key=lambda run: run.start, reverse=True):
            positions[run.partition] = run.start
        for sent in kept.sent:
            index = sent.source_partition
            positions[index] = max(positions[index], sent.source_offset + 1)
        return positions

    async def ends(self, sending: Sending) -> Mapping[int, int]:
        ends: dict[int, int] = {}
        for sent in self._all.kept[sending.id].sent:
            ends[sent.partition] = max(ends.get(sent.partition, 0), sent.offset + 1)
        return ends

    async def sent_from(self, sending: Sending, partition: int, offset: int) -> Sequence[int]:
        return sorted(
            sent.offset
            for sent in self._all.kept[sending.id].sent
            if sent.partition == partition and sent.offset >= offset
        )

    async def runs(
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]:
        runs = sorted(self._all.kept[sending.id].runs, key=lambda run: run.start)
        found = [run for run in runs if run.partition == partition and run.end > offset]
        return found[:limit]

    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        return {row: self._all.discards[row] for row in rows if row in self._all.discards}

    async def archived(
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]:
        records = self._all.kept[sending.id].archived.get(run.partition, ())
        return [each for each in records if first <= each.offset < run.end][:limit]

    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool:
        if self._all.losing:
            raise StorageUnavailableError("the database in memory is down")
        if (kept := self._mine(sending)) is None:
            return False
        kept.sent += sent
        self._all.changed.send()
        return True

    async def written(self, sending: Sending) -> int:
        return len(self._all.kept[sending.id].sent)

    async def end(
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None:
        if (kept := self._mine(sending)) is not None:
            kept.state, kept.reason = state, reason
            self._all.changed.send()

    async def release(self, sending: Sending) -> None:
        if (kept := self._mine(sending)) is not None:
            kept.worker = ""

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        if not self._all.unmarks:
            self._all.refused += 1
            self._all.changed.send()
            raise StorageUnavailableError("the database in memory is down")
        self._all.kept[retransmission_id].unmarked += positions
        self._all.changed.send()

    def _mine(self, sending: Sending) -> Kept | None:
        kept = self._all.kept[sending.id]
        mine = kept.worker == self._worker and kept.state is RetransmissionState.SENDING
        return kept if mine else None
