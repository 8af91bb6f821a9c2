"""Collects messages into batches. Each partition has at most one batch in delivery.

Collected messages are open, so no commit passes them. If a cursor closes, the next owner of its
partition reads the collected messages again.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from app.domain.catalogue.batching import Batching
from app.domain.catalogue.fetch import FetchPolicy
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.delivery import BATCH_VOLUME_EXCEEDED, PUBLISH_TTL_ELAPSED, Discarded
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor
from workers.consumer.defects import Defects
from workers.consumer.source.collected_batch import CollectedBatch, singles, without
from workers.consumer.source.message_times import delay_left_ms, is_stale
from workers.consumer.source.order import Opened
from workers.delivery.batch import Framing, UnfitError, framing_of

_AT_ONCE: Final = float("-inf")


class Clocks(NamedTuple):
    """Two clocks: monotonic time in seconds, and wall time in milliseconds since the epoch."""

    monotonic: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], float] = lambda: time.time_ns() / 1e6


class _Piece(NamedTuple):
    """A message as part of a batch body, with the latest time to send the batch."""

    opened: Opened
    body: bytes
    due: float


class _OpenBatch:
    """The messages that were collected for the next batch so far."""

    __slots__ = ("_framing", "cursors", "due", "pieces", "volume")

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self.pieces: list[_Piece] = []
        self.volume = framing.overhead
        # The latest time to send the batch, in monotonic seconds.
        self.due = math.inf
        # The cursors that have messages in the batch.
        self.cursors: set[Cursor] = set()

    def volume_with(self, piece: _Piece) -> int:
        """Return the size that the batch body would have with `piece`, in bytes."""
        between = len(self._framing.between) if self.pieces else 0
        return self.volume + between + len(piece.body)

    def add(self, piece: _Piece) -> None:
        """Add `piece` to the batch."""
        self.volume = self.volume_with(piece)
        self.pieces.append(piece)
        self.due = min(self.due, piece.due)
        self.cursors.add(piece.opened.cursor)

    def without(self, cursors: AbstractSet[Cursor]) -> "_OpenBatch":
        """Return the batch without the messages of `cursors`."""
        if self.cursors.isdisjoint(cursors):
            return self
        left = _OpenBatch(self._framing)
        for piece in self.pieces:
            if piece.opened.cursor not in cursors:
                left.add(piece)
        return left


class Batches:
    """The order of messages in a subscription with batches: each partition in log order.

    A batch is returned as one message (`CollectedBatch`) when it is full or its time has come. It
    can contain messages of several partitions. A message that fits into no batch, or is too old for
    its first attempt, is returned alone, marked as refused.

    At most one batch is collected at a time. While a batch is in delivery, its partitions are not
    read any further. Each of these partitions has at most one message that waits for the next
    batch. It is a message that was already taken, and did not fit.
    """

    def __init__(
        self,
        batching: Batching,
        policy: DeliveryPolicy,
        *,
        subscription_id: str,
        clocks: Clocks | None = None,
        defects: Defects | None = None,
    ) -> None:
        self._defects = defects or Defects(subscription_id)
        self.batching = batching
        self._policy = policy
        self._subscription_id = subscription_id
        self._clocks = clocks or Clocks()
        self._framing: Framing = framing_of(batching)
        self._open = _OpenBatch(self._framing)
        self._under_way: dict[Cursor, CollectedBatch] = {}
        # Messages that did not fit, by the cursor of their partition. A batch of this partition is
        # in delivery.
        self._behind: dict[Cursor, _Piece] = {}
        # What can be returned now: complete batches, and messages that became too old for a batch.
        self._ready: deque[Opened] = deque()

    @property
    def next_due(self) -> float | None:
        """The latest time to send the next batch (monotonic seconds); None if there is no batch."""
        if self._ready:
            return _AT_ONCE
        return self._open.due if self._open.pieces else None

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Use the time limits of `policy` from now on."""
        del fetch  # not used, because no message waits behind others in batches
        self._policy = policy

    def may_open(self) -> bool:
        """Return True, because a batch has its own limits."""
        return True

    def may_read(self, cursor: Cursor) -> bool:
        """Whether the partition of `cursor` has no batch in delivery."""
        return cursor not in self._under_way

    def admit(self, opened: Opened) -> Opened | None:
        """Add `opened` to the batch.

        Returns:
            A complete batch or a refused message that can be returned now, or None.
        """
        framing = self._framing
        try:
            body = framing.piece(opened.message)
        except UnfitError as exc:
            return _refused(opened, str(exc))
        if framing.overhead + len(body) > self.batching.volume:
            return _refused(opened, BATCH_VOLUME_EXCEEDED)
        due = self._clocks.monotonic() + self.batching.time.total_seconds()
        self._collect(_Piece(opened, body, due))
        return self._next_ready()

    def overdue(self, *, readable: bool = True) -> Opened | None:
        """Return a refused message, or a batch that is complete or due; None if there is neither.

        If `readable` is false, no more messages can be read now, so an incomplete batch does not
        wait for more messages.
        """
        if not self._ready and self._open.pieces and self._is_due(readable=readable):
            self._complete()
        return self._next_ready()

    def failed(self, cursor: Cursor, message: Message) -> None:
        """Do nothing, because the batch stays in delivery until it is finished."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """Allow reading the partitions of the batch again, and return None."""
        del cursor  # not used, because a batch has several cursors
        if isinstance(message, CollectedBatch):
            for each in message.cursors:
                if self._under_way.get(each) is message:
                    del self._under_way[each]
                    self._follow(each)
        return None

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Drop the collected messages of `cursors`. They are read from the log again later."""
        for cursor in cursors:
            self._under_way.pop(cursor, None)
            self._behind.pop(cursor, None)
        self._open = self._open.without(cursors)
        left = [without(opened, cursors) for opened in self._ready]
        self._ready = deque(opened for opened in left if opened is not None)

    def drain(self) -> Iterable[Opened]:
        """Remove all collected messages, and return them one by one."""
        pieces = [*self._open.pieces, *self._behind.values()]
        kept = [piece.opened for piece in pieces]
        kept += [single for opened in self._ready for single in singles(opened)]
        self._open, self._behind, self._ready = _OpenBatch(self._framing), {}, deque()
        return sorted(kept, key=lambda opened: opened.message.offset)

    def _next_ready(self) -> Opened | None:
        return self._ready.popleft() if self._ready else None

    def _collect(self, piece: _Piece) -> None:
        if self._open.pieces and self._open.volume_with(piece) > self.batching.volume:
            self._complete()
        if piece.opened.cursor in self._under_way:
            self._behind[piece.opened.cursor] = piece
            return
        self._open.add(piece)
        is_full = len(self._open.pieces) >= self.batching.size
        if is_full or self._open.volume >= self.batching.volume:
            self._complete()

    def _follow(self, cursor: Cursor) -> None:
        """Collect the message of `cursor` that did not fit into the batch that is finished now."""
        piece = self._behind.pop(cursor, None)
        if piece is not None:
            self._collect(piece)

    def _is_due(self, *, readable: bool) -> bool:
        cursors = self._open.cursors
        # Close the batch if the cursor of one of its partitions cannot open more messages.
        if any(cursor.is_full for cursor in cursors):
            return True
        if self._open.due > self._clocks.monotonic():
            return False
        # Do not close the batch while more messages of its partitions can be read now. These
        # messages are added first.
        return not readable or not any(cursor.queued for cursor in cursors)

    def _complete(self) -> None:
        """Make a batch of the collected messages, without messages that are too old."""
        pieces, self._open = self._open.pieces, _OpenBatch(self._framing)
        try:
            self._hand_out(pieces)
        except Exception as exc:  # noqa: BLE001 - an error must affect only these messages
            reason = self._defects.found(exc, step="batch", message=pieces[0].opened.message)
            self._ready.extend(_refused(piece.opened, reason) for piece in pieces)

    def _hand_out(self, pieces: Sequence[_Piece]) -> None:
        stale = self._stale(pieces)
        if sendable := [piece for piece in pieces if piece.opened not in stale]:
            self._ready.append(self._batch_of(sendable))
        self._ready.extend(_refused(opened, PUBLISH_TTL_ELAPSED) for opened in stale)

    def _batch_of(self, pieces: Sequence[_Piece]) -> Opened:
        opened = [piece.opened for piece in pieces]
        message = CollectedBatch(
            opened,
            [piece.body for piece in pieces],
            framing=self._framing,
            subscription_id=self._subscription_id,
        )
        self._under_way.update(dict.fromkeys(message.cursors, message))
        return Opened(opened[0].cursor, message, self._opened_ms(opened), kept=True)

    def _opened_ms(self, opened: Sequence[Opened]) -> int:
        """Return the start of the time to live of a batch with these messages (epoch ms).

        It is usually the present time. It is earlier if messages were opened long ago, before a
        crash. Then it is the time when a partition's first message was opened, plus the time for
        collecting a batch. Of several partitions, the latest of these times counts.
        """
        first = {each.cursor: each.opened_ms for each in reversed(opened)}
        waited_ms = self.batching.time.total_seconds() * 1e3
        return int(min(self._clocks.wall_ms(), max(first.values()) + waited_ms))

    def _stale(self, pieces: Sequence[_Piece]) -> Collection[Opened]:
        if self._policy.publish_ttl is None:
            return ()
        policy, now_ms = self._policy, self._clocks.wall_ms()
        messages = [piece.opened.message for piece in pieces]
        # Use the first time at which all messages of the batch may be sent.
        now_ms += max(delay_left_ms(message, policy, now_ms=now_ms) for message in messages)
        opened = (piece.opened for piece in pieces)
        # Use a dictionary as a set, because it keeps the order and finds entries fast.
        return {each: None for each in opened if is_stale(each.message, policy, now_ms=now_ms)}


def _refused(opened: Opened, reason: str) -> Opened:
    return opened._replace(refused=Discarded(reason=reason))
