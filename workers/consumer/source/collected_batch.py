"""A batch of what several cursors have opened, each of which may close before it is delivered."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.order import Opened
from workers.delivery.batch import Framing, MessageBatch


class CollectedBatch(MessageBatch):
    """Messages of one worker's partitions, those of each partition in their order."""

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
        """Each cursor that it has messages of, once; that of its first message comes first."""
        return tuple(dict.fromkeys(each.cursor for each in self.opened))

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Forget what is of `cursors`, while it is not in flight; False if nothing is left.

        Another worker sends that. What is left is another batch, with another id and a body that is
        made anew: so those that close together leave together.
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
    """`opened` without what is of `cursors`; None if nothing is left."""
    message = opened.message
    if not isinstance(message, CollectedBatch):
        return None if opened.cursor in cursors else opened
    if not message.leave(cursors):
        return None
    return opened._replace(cursor=message.opened[0].cursor)


def begun(opened: Opened, now_ms: int) -> Opened:
    """As `Opened.begun`; of a batch the clocks of all its partitions run from then on.

    Its own time to live is that of the partition which has the most of it left.
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
    """What was collected, message by message; a message that is in no batch is itself."""
    if isinstance(opened.message, CollectedBatch):
        yield from opened.message.opened
    else:
        yield opened._replace(refused=None)
