"""Collects messages of all partitions into batches; of each, one batch is under way at a time.

An order like others: what it collects is opened and not finished, so that no commit passes it, and
what a cursor that closes has in it is read again by whom the partition goes to.
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
    """Seconds that never run backwards, and milliseconds since the epoch."""

    monotonic: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], float] = lambda: time.time_ns() / 1e6


class _Piece(NamedTuple):
    """A message as a part of a batch's body, and when that is sent at the latest."""

    opened: Opened
    body: bytes
    due: float


class _OpenBatch:
    """What is collected so far."""

    __slots__ = ("_framing", "cursors", "due", "pieces", "volume")

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self.pieces: list[_Piece] = []
        self.volume = framing.overhead
        # When it is sent at the latest, and of whom it has messages.
        self.due = math.inf
        self.cursors: set[Cursor] = set()

    def volume_with(self, piece: _Piece) -> int:
        """Bytes of its body with that one, too."""
        between = len(self._framing.between) if self.pieces else 0
        return self.volume + between + len(piece.body)

    def add(self, piece: _Piece) -> None:
        """Have it in the batch."""
        self.volume = self.volume_with(piece)
        self.pieces.append(piece)
        self.due = min(self.due, piece.due)
        self.cursors.add(piece.opened.cursor)

    def without(self, cursors: AbstractSet[Cursor]) -> "_OpenBatch":
        """The batch without what is of `cursors`."""
        if self.cursors.isdisjoint(cursors):
            return self
        left = _OpenBatch(self._framing)
        for piece in self.pieces:
            if piece.opened.cursor not in cursors:
                left.add(piece)
        return left


class Batches:
    """The order of a subscription that wants batches: each partition's messages as they come.

    A batch is handed out as one message (`CollectedBatch`) when it is as large as it may be, and
    when its time has come. It has messages of whatever partitions have some. A message that cannot
    be in any batch, or is too old for its first attempt, is handed out by itself, refused. At most
    one batch is collected, and a partition is not read on while a batch with messages of it is
    under way: then at most one message of it, which did not fit, waits for the next batch.
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
        # Of partitions under way: the message that did not fit any more.
        self._behind: dict[Cursor, _Piece] = {}
        # To be handed out: batches, and messages that became too old for theirs.
        self._ready: deque[Opened] = deque()

    @property
    def next_due(self) -> float | None:
        """When the next batch is sent at the latest (monotonic seconds)."""
        if self._ready:
            return _AT_ONCE
        return self._open.due if self._open.pieces else None

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Keep to the ages of `policy` from now on."""
        del fetch  # it bounds what waits behind others, and here nothing does
        self._policy = policy

    def may_open(self) -> bool:
        """Always: what is kept is bounded by itself."""
        return True

    def may_read(self, cursor: Cursor) -> bool:
        """Whether no batch with messages of the partition is under way."""
        return cursor not in self._under_way

    def admit(self, opened: Opened) -> Opened | None:
        """Collect it; returns the batch that is complete now, or a message that is refused."""
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
        """What is to be handed out now: a refused message, or a batch that is complete or due.

        Not `readable`: what more there is may not be taken yet, and is not waited for.
        """
        if not self._ready and self._open.pieces and self._is_due(readable=readable):
            self._complete()
        return self._next_ready()

    def failed(self, cursor: Cursor, message: Message) -> None:
        """It stays under way."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """None: the partitions of the batch may be read on."""
        del cursor  # one of those that the batch has messages of
        if isinstance(message, CollectedBatch):
            for each in message.cursors:
                if self._under_way.get(each) is message:
                    del self._under_way[each]
                    self._follow(each)
        return None

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Forget what is collected of them: it is read again."""
        for cursor in cursors:
            self._under_way.pop(cursor, None)
            self._behind.pop(cursor, None)
        self._open = self._open.without(cursors)
        left = [without(opened, cursors) for opened in self._ready]
        self._ready = deque(opened for opened in left if opened is not None)

    def drain(self) -> Iterable[Opened]:
        """All that is collected, message by message."""
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
        """Collect what did not fit into the batch of `cursor` that is finished."""
        piece = self._behind.pop(cursor, None)
        if piece is not None:
            self._collect(piece)

    def _is_due(self, *, readable: bool) -> bool:
        cursors = self._open.cursors
        # No more can be opened behind one of its messages.
        if any(cursor.is_full for cursor in cursors):
            return True
        if self._open.due > self._clocks.monotonic():
            return False
        # What can be read on is in it first.
        return not readable or not any(cursor.queued for cursor in cursors)

    def _complete(self) -> None:
        """Have what is collected handed out as a batch, without what is too old by now."""
        pieces, self._open = self._open.pieces, _OpenBatch(self._framing)
        try:
            self._hand_out(pieces)
        except Exception as exc:  # noqa: BLE001 - only these messages shall suffer
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
        """Since when the time to live of a batch with these runs.

        From when it is handed out; and it goes on after a crash: then the first message of a
        partition has been open for longer than a batch waits. Messages of other partitions, which
        have not, are not given up sooner by that.
        """
        first = {each.cursor: each.opened_ms for each in reversed(opened)}
        waited_ms = self.batching.time.total_seconds() * 1e3
        return int(min(self._clocks.wall_ms(), max(first.values()) + waited_ms))

    def _stale(self, pieces: Sequence[_Piece]) -> Collection[Opened]:
        if self._policy.publish_ttl is None:
            return ()
        policy, now_ms = self._policy, self._clocks.wall_ms()
        messages = [piece.opened.message for piece in pieces]
        # When all of it may be sent.
        now_ms += max(delay_left_ms(message, policy, now_ms=now_ms) for message in messages)
        opened = (piece.opened for piece in pieces)
        # As keys: in their order, and soon found.
        return {each: None for each in opened if is_stale(each.message, policy, now_ms=now_ms)}


def _refused(opened: Opened, reason: str) -> Opened:
    return opened._replace(refused=Discarded(reason=reason))
