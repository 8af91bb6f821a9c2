"""Finds what happened to a message, from its trace entries and its discards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.trace import TraceEntry, TraceStatus, TrackingMode, timeline, traced_id
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.traces.lookup import TraceLookup, TraceQuestion

# The maximum number of trace entries in a response, as in Hermes. An attempt has two entries.
ENTRIES_MAX: Final = 1_000
# The maximum time between a trace entry that was lost and the record of its loss.
_AROUND: Final = timedelta(minutes=1)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The trace entries of a message, the oldest first.

    `lost` is the number of trace entries, of any message, that were lost in the same time.
    `tracked` is False if there are no entries because the topic is not traced.
    """

    entries: Sequence[TraceEntry]
    lost: int
    tracked: bool = True


class TraceService:
    """Looks up the traces of messages by message id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_message(
        self, message_id: str, *, topic: str | None = None, subscription: str | None = None
    ) -> Trace:
        """Return what happened to a message in all topics, in one topic, or in one subscription.

        Discards of the message are found even if the message was not traced.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        found_as = traced_id(message_id.encode("utf-8", "replace"))
        requested = TraceQuestion(message_id=found_as, topic=topic, subscription=subscription)
        trace = await self._database.read(
            lambda reading: _trace_of(TraceLookup(reading, requested, limit=ENTRIES_MAX))
        )
        if trace.entries or topic is None:
            return trace
        return replace(trace, tracked=await self._is_tracked(topic, subscription))

    async def _is_tracked(self, topic: str, subscription: str | None) -> bool:
        """Whether trace entries are written for the topic's publications, or for some deliveries.

        If `subscription` is given, deliveries of other subscriptions do not count.
        """
        async with self._database.transaction() as session:
            subscriptions = SubscriptionRepository(session)
            if (await TopicRepository(session).get(topic)).tracking is not TrackingMode.OFF:
                return True
            tracked = await subscriptions.names(topic, tracked=True)
        return subscription in tracked if subscription else bool(tracked)


async def _trace_of(lookup: TraceLookup) -> Trace:
    known = await lookup.known()
    traced = await lookup.entries(known)
    entries = timeline([*traced, *_untraced(known.discards, traced)])[:ENTRIES_MAX]
    return Trace(entries=entries, lost=await lookup.lost(known, *_window(entries)))


def _untraced(discards: Iterable[TraceEntry], traced: Iterable[TraceEntry]) -> Sequence[TraceEntry]:
    known = {_position(each) for each in traced if each.status is TraceStatus.DISCARDED}
    return [each for each in discards if _position(each) not in known]


def _position(entry: TraceEntry) -> tuple[str, int, int]:
    return entry.source.subscription_id, entry.partition, entry.offset


def _window(entries: Sequence[TraceEntry]) -> tuple[datetime, datetime]:
    if not entries:
        return _BEGINNING, datetime.now(UTC) + _AROUND
    return entries[0].at - _AROUND, entries[-1].at + _AROUND
