"""Collects the messages of each partition into batches; one of a partition is under way at a time.

An order like others: what it collects is opened and not finished, so that no commit passes it, and
whatever closes its cursor makes it be read again.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from app.domain.batching import Batching
from app.domain.delivery import BATCH_VOLUME_EXCEEDED, PUBLISH_TTL_ELAPSED, Discarded
from app.domain.fetch import FetchPolicy
from app.domain.message import Message
from app.domain.subscription import DeliveryPolicy
from workers.consumer.clocks import delay_left_ms, is_stale
from workers.consumer.cursor import Cursor
from workers.consumer.order import Opened
from workers.delivery.batch import Framing, MessageBatch, UnfitError, framing_of

_AT_ONCE: Final = float("-inf")


class Clocks(NamedTuple):
    """Seconds that never run backwards, and milliseconds since the epoch."""

    monotonic: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], float] = lambda: time.time_ns() / 1e6


class _OpenBatch:
    """What is collected of one partition, and when it is sent at the latest."""

    __slots__ = ("due", "opened", "pieces", "volume")

    def __init__(self, volume: int, due: float) -> None:
        self.opened: list[Opened] = []
        self.pieces: list[bytes] = []
        self.volume = volume
        self.due = due

    def add(self, opened: Opened, piece: bytes, volume: int) -> None:
        self.opened.append(opened)
        self.pieces.append(piece)
        self.volume = volume


class Batches:
    """The order of a subscription that wants batches: each partition's messages as they come.

    A batch is handed out as one message (`MessageBatch`) when it is as large as it may be, and when
    its time has come and there is nothing more to read. A message that cannot be in any batch, or
    is too old for its first attempt, is handed out by itself, refused. Of each partition at most
    one batch is collected, and it is not read on while one is under way.
    """

    def __init__(
        self,
        batching: Batching,
        policy: DeliveryPolicy,
        *,
        subscription_id: str,
        clocks: Clocks | None = None,
    ) -> None:
        self.batching = batching
        self._policy = policy
        self._subscription_id = subscription_id
        self._clocks = clocks or Clocks()
        self._framing: Framing = framing_of(batching)
        self._open: dict[Cursor, _OpenBatch] = {}
        self._under_way: dict[Cursor, MessageBatch] = {}
        # Too old when their batch was to be sent.
        self._refused: deque[Opened] = deque()

    @property
    def next_due(self) -> float | None:
        """When the next batch is sent at the latest (monotonic seconds); at once for refusals."""
        if self._refused:
            return _AT_ONCE
        waiting = (b.due for cursor, b in self._open.items() if cursor not in self._under_way)
        return min(waiting, default=None)

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Keep to the ages of `policy` from now on."""
        del fetch  # it bounds what waits behind others, and here nothing does
        self._policy = policy

    def may_open(self) -> bool:
        """Always: what is kept of a partition is bounded by itself."""
        return True

    def may_read(self, cursor: Cursor) -> bool:
        """Whether no batch of the partition is under way."""
        return cursor not in self._under_way

    def admit(self, opened: Opened) -> Opened | None:
        """Collect it; returns the batch that is complete now, or a message that is refused."""
        cursor, framing = opened.cursor, self._framing
        try:
            piece = framing.piece(opened.message)
        except UnfitError as exc:
            return _refused(opened, str(exc))
        if framing.overhead + len(piece) > self.batching.volume:
            return _refused(opened, BATCH_VOLUME_EXCEEDED)
        complete = None
        batch = self._open.get(cursor)
        if batch is not None and self._volume_with(batch, piece) > self.batching.volume:
            complete, batch = self._closed(cursor), None
        if batch is None:
            batch = self._begun(cursor)
        batch.add(opened, piece, self._volume_with(batch, piece))
        if self._is_full(batch):
            batch.due = _AT_ONCE
            complete = complete or self._closed(cursor)
        return complete or self._next_refused()

    def overdue(self, *, readable: bool = True) -> Opened | None:
        """What is to be handed out now: a refused message, or a batch whose time has come.

        Not `readable`: what more there is may not be taken yet, and is not waited for.
        """
        if self._refused:
            return self._next_refused()
        now = self._clocks.monotonic()
        for cursor, batch in self._open.items():
            if cursor in self._under_way:
                continue
            if self._is_due(cursor, batch, now) or (batch.due <= now and not readable):
                return self._closed(cursor) or self._next_refused()
        return None

    def failed(self, cursor: Cursor, message: Message) -> None:
        """It stays under way."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """None: the partition may be read on."""
        if self._under_way.get(cursor) is message:
            del self._under_way[cursor]
        return None

    def release(self, cursor: Cursor) -> None:
        """Forget what is collected and under way: it is read again."""
        self._open.pop(cursor, None)
        self._under_way.pop(cursor, None)
        if self._refused:
            kept = (opened for opened in self._refused if opened.cursor is not cursor)
            self._refused = deque(kept)

    def drain(self) -> Iterable[Opened]:
        """All that is collected, message by message."""
        kept = [opened for batch in self._open.values() for opened in batch.opened]
        kept += [opened._replace(refused=None) for opened in self._refused]
        self._open, self._refused = {}, deque()
        return sorted(kept, key=lambda opened: opened.message.offset)

    def _next_refused(self) -> Opened | None:
        return self._refused.popleft() if self._refused else None

    def _volume_with(self, batch: _OpenBatch, piece: bytes) -> int:
        between = len(self._framing.between) if batch.pieces else 0
        return batch.volume + between + len(piece)

    def _is_full(self, batch: _OpenBatch) -> bool:
        return len(batch.opened) >= self.batching.size or batch.volume >= self.batching.volume

    def _is_due(self, cursor: Cursor, batch: _OpenBatch, now: float) -> bool:
        if batch.due == _AT_ONCE:
            return True
        # What can be read is in it first; unless no more can be opened behind it.
        return (batch.due <= now and not cursor.queued) or cursor.is_full

    def _begun(self, cursor: Cursor) -> _OpenBatch:
        due = self._clocks.monotonic() + self.batching.time.total_seconds()
        batch = self._open[cursor] = _OpenBatch(self._framing.overhead, due)
        return batch

    def _closed(self, cursor: Cursor) -> Opened | None:
        """The batch as one message, without those that are too old by now; None if all are."""
        batch = self._open.pop(cursor)
        sendable = self._sendable(batch)
        if not sendable:
            return None
        message = MessageBatch(
            [opened.message for opened, _ in sendable],
            self._framing.body(piece for _, piece in sendable),
            content_type=self._framing.content_type,
            subscription_id=self._subscription_id,
        )
        self._under_way[cursor] = message
        # The time to live runs from when it is handed out, and goes on after a crash: then the
        # first message has been open for longer than a batch waits.
        waited_ms = self.batching.time.total_seconds() * 1e3
        opened_ms = min(self._clocks.wall_ms(), batch.opened[0].opened_ms + waited_ms)
        return Opened(cursor, message, int(opened_ms), kept=True)

    def _sendable(self, batch: _OpenBatch) -> list[tuple[Opened, bytes]]:
        pairs = list(zip(batch.opened, batch.pieces, strict=True))
        if self._policy.publish_ttl is None:
            return pairs
        policy, now_ms = self._policy, self._clocks.wall_ms()
        # When all of it may be sent.
        now_ms += max(delay_left_ms(o.message, policy, now_ms=now_ms) for o in batch.opened)
        stale = [o for o in batch.opened if is_stale(o.message, policy, now_ms=now_ms)]
        self._refused.extend(_refused(opened, PUBLISH_TTL_ELAPSED) for opened in stale)
        return [(o, p) for o, p in pairs if not is_stale(o.message, policy, now_ms=now_ms)]


def _refused(opened: Opened, reason: str) -> Opened:
    return opened._replace(refused=Discarded(reason=reason))
