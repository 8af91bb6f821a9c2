"""What happened to a message, as far as it was traced or recorded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.trace import TraceEntry, TraceSource, TraceStatus, timeline, traced_id
from app.domain.undelivered import Undelivered, UndeliveredFilter
from app.storage.database import Database
from app.storage.subscriptions import SubscriptionRepository
from app.storage.topics import TopicRepository
from app.storage.traces import TraceRepository
from app.storage.undelivered import UndeliveredRepository

# Of Hermes, too; each attempt makes two of them.
ENTRIES_MAX: Final = 1_000
# An entry that is lost was said to be so within this time of when it should have been there.
_AROUND: Final = timedelta(minutes=1)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The entries of a message, oldest first, and how many of any message are lost of that time."""

    entries: Sequence[TraceEntry]
    lost: int


class TraceService:
    """Looks messages up by their ids; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_message(
        self, message_id: str, *, topic: str | None = None, subscription: str | None = None
    ) -> Trace:
        """Its publication, and its deliveries: to all, those of a topic, or one of those.

        What is not traced is known of discards all the same. TopicNotFoundError,
        SubscriptionNotFoundError.
        """
        found_as = traced_id(message_id.encode("utf-8", "replace"))
        async with self._database.transaction() as session:
            subscription_id = None
            if topic is not None and subscription is not None:
                found = await SubscriptionRepository(session).get(topic, subscription)
                subscription_id = found.id
            elif topic is not None:
                await TopicRepository(session).get(topic)
            traces = TraceRepository(session)
            traced = await traces.of_message(
                found_as, topic=topic, subscription_id=subscription_id, limit=ENTRIES_MAX
            )
            asked = UndeliveredFilter(
                message_id=found_as, topic=topic, subscription_id=subscription_id
            )
            page = await UndeliveredRepository(session).page(asked, limit=ENTRIES_MAX)
            entries = timeline([*traced, *_untraced(page.items, traced)])[:ENTRIES_MAX]
            return Trace(entries=entries, lost=await traces.lost(*_window(entries)))


def _untraced(
    discards: Iterable[Undelivered], traced: Iterable[TraceEntry]
) -> Iterable[TraceEntry]:
    known = {_place(each) for each in traced if each.status is TraceStatus.DISCARDED}
    entries = (_discarded(each) for each in discards)
    return [each for each in entries if _place(each) not in known]


def _place(entry: TraceEntry) -> tuple[str, int, int]:
    return entry.source.subscription_id, entry.partition, entry.offset


def _discarded(discard: Undelivered) -> TraceEntry:
    return TraceEntry(
        source=TraceSource(
            topic=discard.topic,
            subscription_id=discard.subscription_id,
            subscription=discard.subscription,
        ),
        message_id=discard.message_id,
        at=discard.discarded_at,
        status=TraceStatus.DISCARDED,
        partition=discard.partition,
        offset=discard.offset,
        attempt=discard.attempts,
        status_code=discard.status,
        reason=discard.reason,
    )


def _window(entries: Sequence[TraceEntry]) -> tuple[datetime, datetime]:
    if not entries:
        return _BEGINNING, datetime.now(UTC) + _AROUND
    return entries[0].at - _AROUND, entries[-1].at + _AROUND
