"""Makes the requests for the next ledger entries of subscriptions.

An entry covers the messages from the position where the last entry ended to the current position.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress, parse_progress
from app.domain.errors import TopicNotFoundError
from app.domain.insight.ledger import LedgerEntry, LedgerRequest, Mark, mark_of
from app.domain.message import Partition
from app.log.interface import Bounds, Committed, MessageLog
from app.services.log_positions import bounds_of
from app.services.stream_ends import stream_spans
from app.storage.insight.ledgers import LedgerRepository

_MOMENT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The positions of a subscription in all partitions of its topic at the time `at`."""

    subscription: Subscription
    at: datetime
    marks: Sequence[Mark]


async def following(
    subscriptions: Sequence[Subscription], ledgers: LedgerRepository, log: MessageLog
) -> Mapping[str, LedgerRequest]:
    """Return, by subscription id, the requests for the next ledger entries, which end now.

    A subscription is left out if the log does not have its topic.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    ids = [each.id for each in subscriptions]
    last = await ledgers.last_of(ids)
    looks = await _looks(subscriptions, log)
    # Read the ends of the streams and the cancelled retransmissions after the positions of the
    # subscriptions. So the streams have entries for all messages that are finished at these
    # positions.
    streams = tuple(await stream_spans(log))
    dropped = await ledgers.dropped(ids)
    return {
        owner: replace(
            _behind(last.get(owner), look), streams=streams, dropped=dropped.get(owner, ())
        )
        for owner, look in looks.items()
    }


async def _looks(subscriptions: Sequence[Subscription], log: MessageLog) -> Mapping[str, _Look]:
    """Return the positions of each subscription, from its commits and the ends of the partitions.

    The ends are read after the commits, so no commit is beyond the end of its partition.
    """
    at = datetime.now(UTC)
    topics: dict[str, Collection[Partition]] = {}
    for topic in {each.topic for each in subscriptions}:
        with suppress(TopicNotFoundError):
            topics[topic] = await log.partitions(topic)
    known = [each for each in subscriptions if each.topic in topics]
    found = await log.committed({each.group: topics[each.topic] for each in known})
    bounds = await bounds_of(log, [each for group in topics.values() for each in group])
    return {
        each.id: _Look(
            subscription=each,
            at=at,
            marks=[
                _mark(
                    each,
                    partition,
                    committed=found.get(each.group, {}),
                    bounds=bounds[partition],
                )
                for partition in topics[each.topic]
            ],
        )
        for each in known
    }


def _mark(
    subscription: Subscription,
    partition: Partition,
    *,
    committed: Mapping[Partition, Committed],
    bounds: Bounds,
) -> Mark:
    progress = _beginning(subscription, partition.index)
    if partition in committed:
        there = committed[partition]
        known = parse_progress(subscription.id, there.offset, there.metadata)
        # Ignore the commit if it is from a deleted subscription with the same name. The present
        # subscription has not committed in this partition yet.
        progress = known or progress
    return mark_of(partition.index, progress, bounds.end)


def _beginning(subscription: Subscription, partition: int) -> Progress:
    return Progress(subscription_id=subscription.id, offset=subscription.start.get(partition, 0))


def _behind(last: LedgerEntry | None, look: _Look) -> LedgerRequest:
    """Return the request for the ledger entry that follows the entry `last`.

    If `last` is None, this is the first entry. It begins at the creation of the subscription.
    """
    opening = _first_opening(look) if last is None else last.closing
    since = _first_since(look) if last is None else last.until
    return LedgerRequest(
        number=1 if last is None else last.number + 1,
        since=since,
        # Let the entry end after its beginning, even if the clock of this process is behind the
        # clock of the process that made the last entry.
        until=max(look.at, since + _MOMENT),
        opening=tuple(opening),
        closing=tuple(look.marks),
    )


def _first_opening(look: _Look) -> Sequence[Mark]:
    start = look.subscription.start
    if not start:
        # Begin the ledger at the current positions. The start positions of the subscription are
        # unknown, because an old version of Angelia did not store them. So the ledger states
        # nothing about earlier messages.
        return look.marks
    return [
        mark_of(mark.partition, _beginning(look.subscription, mark.partition), end=0)
        for mark in look.marks
    ]


def _first_since(look: _Look) -> datetime:
    subscription = look.subscription
    # Begin the first entry at the time of its opening positions. This is the creation of the
    # subscription, or now if the start positions are unknown.
    began = subscription.created_at if subscription.start else None
    return began or look.at
