"""A batch with messages of several cursors. A cursor may close before the batch is delivered."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.order import Opened
from workers.delivery.batch import Framing, MessageBatch


class CollectedBatch(MessageBatch):
    """A batch with messages of several partitions. Messages of one partition are in order."""

    __slots__ = ("_framing", "opened")

    def __init__(
        self,
        opened: Sequence[Opened],
        pieces: Sequence[bytes],
        *,
        framing: Framing,
        subscription_id: str,
    ) -> None:
        super().__init__(
            [each.message for each in opened],
            framing.body(pieces),
            content_type=framing.content_type,
            subscription_id=subscription_id,
        )
        self.opened = opened
        self._framing = framing

    @property
    def cursors(self) -> Sequence[Cursor]:
        """Return the cursors of the messages in the batch, the first message's cursor first."""
        return tuple(dict.fromkeys(each.cursor for each in self.opened))

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Drop the messages of `cursors`. The batch must not be in flight.

        Another worker sends the dropped messages. The remaining messages become another batch with
        a new id and a new body. So pass all cursors that close together in one call.

        Returns:
            False if no message remains.
        """
        left = [each for each in self.opened if each.cursor not in cursors]
        if not left:
            return False
        if len(left) < len(self.opened):
            self.opened = left
            messages = [each.message for each in left]
            self.fill(messages, self._framing.body(map(self._framing.piece, messages)))
        return True


def without(opened: Opened, cursors: AbstractSet[Cursor]) -> Opened | None:
    """Return `opened` without the messages of `cursors`; None if no message remains."""
    message = opened.message
    if not isinstance(message, CollectedBatch):
        return None if opened.cursor in cursors else opened
    if not message.leave(cursors):
        return None
    return opened._replace(cursor=message.opened[0].cursor)


def begun(opened: Opened, now_ms: int) -> Opened:
    """Return the message or batch with a time to live that starts now.

    In a batch, the time to live starts for each partition. The batch has the time to live of the
    partition with the most time left.
    """
    message = opened.message
    if not isinstance(message, CollectedBatch):
        return opened.begun(now_ms)
    first = {each.cursor: each for each in reversed(message.opened)}
    since = [
        since_ms
        for cursor, each in first.items()
        if (since_ms := cursor.start_ttl(each.message, now_ms)) is not None
    ]
    return opened._replace(opened_ms=max(since)) if since else opened


def singles(opened: Opened) -> Iterator[Opened]:
    """Yield the messages of a batch one by one. Yield a single message without a refusal."""
    if isinstance(opened.message, CollectedBatch):
        yield from opened.message.opened
    else:
        yield opened._replace(refused=None)
