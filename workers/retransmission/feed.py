"""Appends the messages of one retransmission to its topic, among the new messages of publishers."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from math import ceil
from typing import Final

import structlog

from app.domain.catalogue.subscription import State, Subscription
from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.domain.replay.retransmission import RetransmissionState, Sent, found_sent
from app.domain.replay.sending_rate import RetransmissionPace, Sending
from app.log.interface import UNKNOWN_OFFSET, MessageLog
from workers.retransmission.copies import UnfinishedCopies
from workers.retransmission.source import ChosenMessage, ChosenMessages
from workers.retransmission.store import RetransmissionStore

LEASE: Final = timedelta(seconds=15)
TICK: Final = timedelta(milliseconds=100)
RENEW_EVERY: Final = timedelta(milliseconds=500)
# An append may take this long at most. The time is shorter than the lease, because another worker
# may continue the retransmission when the lease has ended.
APPEND_MAX: Final = timedelta(seconds=10)
# The pace follows the shortest of so many appends.
APPENDS_COUNTED: Final = 4
BATCH_MAX: Final = 500
# The time between two appends, unless an append takes longer. If many messages were appended at
# once, they would delay the new messages behind them, because the subscription's rate is limited.
PIECE_EVERY: Final = timedelta(milliseconds=10)
# The groups of messages that are appended in this time are recorded together as appended. To record
# them blocks the event loop for one or two milliseconds.
RECORD_EVERY: Final = timedelta(milliseconds=80)
# An append may be late. The next appends make up for a delay of at most this many seconds.
LATE_MAX: Final = 0.05
READ_BACK_BYTES: Final = 1024 * 1024

_log = structlog.get_logger()


class RetransmissionLostError(Exception):
    """The retransmission has ended, or another worker has it: this worker stops sending it."""


class RetransmissionFeed:
    """Appends the messages of one retransmission at its rate, until all are finished.

    A worker may die after it has appended messages, and before it has recorded them as appended. So
    the next worker first reads such messages back from the log, and each message is appended only
    once. The log may have stored only some messages of an append. Messages are therefore recorded
    in the order in which they are chosen: if one is recorded, all before it were appended.

    `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        log: MessageLog,
        store: RetransmissionStore,
        sending: Sending,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._store = store
        self._sending = sending
        self._clock = clock
        self._pace = RetransmissionPace(sending.share, self._clock(), rate_max=sending.rate)
        self._written = 0
        # How long the last appends took, in seconds. A single slow one does not count.
        self._appends_took = deque([0.0] * APPENDS_COUNTED, maxlen=APPENDS_COUNTED)
        self._unfinished = UnfinishedCopies(log, sending, self._clock())
        # The messages that were read back from the log and are not recorded yet, by their original
        # position.
        self._in_log: dict[tuple[int, int], Sent] = {}
        self._kept_until = self._clock() + LEASE.total_seconds()
        self._renewed_at = 0.0

    async def run(self) -> None:
        """Append all messages, and wait until they are finished.

        After an error, any worker may continue.

        Raises:
            RetransmissionLostError: The retransmission has ended, or another worker has it.
            UnavailableError: The log or the database cannot be reached.
        """
        subscription = await self._renew_lease()
        await self._read_back()
        await self._unfinished.remember(self._store, subscription)
        self._written = await self._store.written(self._sending)
        positions = await self._store.sources(self._sending)
        source = ChosenMessages(self._log, self._store, self._sending, positions=positions)
        all_read = False
        while self._unfinished or not all_read:
            subscription = await self._current(subscription)
            before = self._written
            all_read = all_read or await self._append_allowed(source, subscription)
            pause = TICK if self._written == before else PIECE_EVERY
            await asyncio.sleep(pause.total_seconds())
        await self._renew_lease()
        await self._store.end(self._sending, RetransmissionState.DONE)
        _log.info("retransmitted", retransmission=self._sending.id, messages=self._written)

    async def _append_allowed(self, source: ChosenMessages, subscription: Subscription) -> bool:
        """Append as many messages as the rate allows now. Return whether no messages are left."""
        now = self._clock()
        if subscription.state is State.SUSPENDED:
            self._pace.rest(now)
            return False
        ahead = len(self._unfinished)
        allowed = self._pace.allowed(rate=subscription.policy.rate, ahead=ahead, now=now)
        if not allowed:
            return False
        every = max(PIECE_EVERY, timedelta(seconds=min(self._appends_took)))
        piece = self._pace.piece(rate=subscription.policy.rate, every=every)
        pieces = ceil(RECORD_EVERY / every)
        chosen = await source.next(min(allowed, BATCH_MAX, piece * pieces))
        if chosen:
            await self._append_all(chosen, piece)
        else:
            await self._record_unmatched()
        return not chosen

    async def _record_unmatched(self) -> None:
        """Record the messages that were read back, but that the source did not return.

        They were recorded before, or the source no longer has them.
        """
        if self._in_log:
            await self._record([*self._in_log.values()])
            self._in_log.clear()

    async def _append_all(self, chosen: Sequence[ChosenMessage], piece: int) -> None:
        """Append messages in groups of `piece` messages, and then record them all as appended.

        If the worker dies before it has recorded the messages, the log shows which ones were
        appended.
        """
        sent: list[Sent] = []
        due = self._clock()
        for first in range(0, len(chosen), piece):
            await asyncio.sleep(due - self._clock())
            sent += await self._append(chosen[first : first + piece])
            due = max(due, self._clock() - LATE_MAX) + PIECE_EVERY.total_seconds()
        await self._record(sent)
        self._pace.appended(len(sent))

    async def _append(self, chosen: Sequence[ChosenMessage]) -> Sequence[Sent]:
        """Append the messages, except those that were read back."""
        known = {each[:2]: sent for each in chosen if (sent := self._in_log.pop(each[:2], None))}
        if missing := [each for each in chosen if each[:2] not in known]:
            known |= {sent[:2]: sent for sent in await self._append_missing(missing)}
        return [known[each[:2]] for each in chosen]

    async def _append_missing(self, chosen: Sequence[ChosenMessage]) -> Sequence[Sent]:
        if self._clock() + APPEND_MAX.total_seconds() > self._kept_until:
            await self._renew_lease()
        records = [each.record for each in chosen]
        began = self._clock()
        async with asyncio.timeout(APPEND_MAX.total_seconds()):
            positions = await self._log.append(self._sending.topic, records)
        self._appends_took.append(self._clock() - began)
        if any(each.offset == UNKNOWN_OFFSET for each in positions):
            # The log does not know the offsets of some messages that it stored. Treat the append as
            # one with an unknown outcome: then the messages are read back from the log, which shows
            # their offsets.
            raise LogUnavailableError("the log does not say where it stored the messages")
        return [
            Sent(each.partition, each.offset, position.partition.index, position.offset)
            for each, position in zip(chosen, positions, strict=True)
        ]

    async def _record(self, sent: Sequence[Sent]) -> None:
        if not await self._store.record(self._sending, sent):
            raise RetransmissionLostError
        self._written += len(sent)
        self._unfinished.add(sent)

    async def _current(self, known: Subscription) -> Subscription:
        if self._clock() - self._renewed_at < RENEW_EVERY.total_seconds():
            return known
        await self._unfinished.forget_finished(known, self._clock())
        return await self._renew_lease()

    async def _renew_lease(self) -> Subscription:
        """Renew the lease, report the progress, and return the current subscription."""
        began = self._clock()
        finished = self._written - len(self._unfinished)
        if not await self._store.keep(self._sending, finished, LEASE):
            raise RetransmissionLostError
        self._kept_until = began + LEASE.total_seconds()
        self._renewed_at = began
        subscription = await self._store.subscription(self._sending)
        if subscription is None:
            await self._store.end(
                self._sending, RetransmissionState.FAILED, "Its subscription is deleted"
            )
            raise RetransmissionLostError
        return subscription

    async def _read_back(self) -> None:
        ends = await self._store.ends(self._sending)
        partitions = await self._log.partitions(self._sending.topic)
        bounds = await self._log.bounds(partitions)
        for partition in partitions:
            index = partition.index
            begun = self._sending.begun.get(index, bounds[partition].start)
            first = max(ends.get(index, begun), bounds[partition].start)
            await self._read_back_from(partition, first, bounds[partition].end)

    async def _read_back_from(self, partition: Partition, offset: int, end: int) -> None:
        record_target = self._sending.record_target
        while offset < end:
            chunk = await self._log.fetch(partition, offset, bytes_max=READ_BACK_BYTES)
            found = [found_sent(each, partition.index, record_target) for each in chunk.records]
            if sent := [each for each in found if each is not None]:
                _log.info("retransmission_read_back", messages=len(sent))
                for each in sent:
                    self._in_log.setdefault(each[:2], each)
            offset = max(chunk.next_offset, offset + 1)
            if self._clock() - self._renewed_at > RENEW_EVERY.total_seconds():
                await self._renew_lease()
