"""Collects the state of all subscriptions, and the log's offsets, for the evaluator."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import parse_progress
from app.domain.health.arrivals import Point
from app.domain.health.evaluator import ClusterSnapshot, Ends, HealthEvaluator, Seen
from app.domain.health.indicators import Thresholds
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.insight.ledger_missing import Shortfall
from app.domain.message import Partition
from app.domain.status import SubscriptionLoad
from app.log.interface import MessageLog

# The log is asked which offset a partition had at a past time, to find when waiting messages
# arrived. The first query asks about this many seconds before now.
RECALL_FIRST_S: Final = 1.0
# The distance between two queried times grows by this factor. The queries end when they have
# reached the oldest waiting message.
RECALL_FACTOR: Final = 1.5
# The log is not asked about times that are longer ago than this.
RECALL_MAX: Final = timedelta(days=60)
# The time limit of the queries about waiting messages in one round. The next round continues with
# the messages that are not found in this time.
RECALL_WITHIN: Final = timedelta(seconds=2)
# The maximum number of subscriptions for which one round asks the log about retried messages.
TRYING_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """The topics, subscriptions and workers' reports in the database at the time `now`.

    `now` is in seconds since the epoch. `ClusterSnapshot` describes the other fields.
    """

    now: float
    topics: Mapping[str, Topic]
    subscriptions: Mapping[str, Subscription]
    cursors: Mapping[str, Mapping[int, Seen]]
    workers: AbstractSet[str]
    loads: Mapping[str, Sequence[SubscriptionLoad]]
    moved: AbstractSet[str]
    # How many messages are missing in the last ledger entry, by subscription id. Subscriptions
    # without missing messages are left out.
    short: Mapping[str, Shortfall] = field(default_factory=dict)


class HealthCollector:
    """Takes snapshots of the state of all subscriptions, and remembers them.

    Each round asks the log once for the ends of all partitions. Further queries are needed only for
    partitions with messages that already waited before the first round, and for subscriptions that
    retry messages.
    """

    def __init__(self, log: MessageLog, thresholds: Thresholds) -> None:
        self._log = log
        self._evaluator = HealthEvaluator(thresholds)

    async def look(self, known: KnownState) -> Mapping[str, SubscriptionHealth]:
        """Take a snapshot; return the health of each subscription by id.

        Raises:
            LogUnavailableError: The log cannot be reached.
        """
        snapshot = ClusterSnapshot(
            now=known.now,
            topics=known.topics,
            subscriptions=known.subscriptions,
            cursors=known.cursors,
            workers=known.workers,
            loads=known.loads,
            moved=known.moved,
            ends=await self._ends(known),
            opened=await self._opened(known),
        )
        self._evaluator.observe(snapshot)
        await self._recall(snapshot)
        # Evaluate the health on a thread, because thousands of subscriptions take some time, and
        # the event loop has other work.
        return await asyncio.to_thread(self._evaluator.evaluate, snapshot)

    async def _ends(self, known: KnownState) -> dict[Partition, Ends]:
        watched = {each.topic for each in known.subscriptions.values()} & known.topics.keys()
        partitions = [
            Partition(name, index)
            for name in sorted(watched)
            for index in range(known.topics[name].partitions)
        ]
        bounds = await self._log.bounds(partitions) if partitions else {}
        return {partition: Ends(each.start, each.end) for partition, each in bounds.items()}

    async def _recall(self, snapshot: ClusterSnapshot) -> None:
        try:
            async with asyncio.timeout(RECALL_WITHIN.total_seconds()):
                await self._recall_all(snapshot)
        except TimeoutError:
            return

    async def _recall_all(self, snapshot: ClusterSnapshot) -> None:
        """Ask the log when the waiting messages arrived.

        Each query is about an earlier time, until the oldest waiting message is reached.
        """
        ago, step = 0.0, RECALL_FIRST_S
        while ago < RECALL_MAX.total_seconds() and (fronts := await self._unknown(snapshot)):
            ago, step = ago + step, step * RECALL_FACTOR
            at = snapshot.now - ago
            found = await self._log.offsets_at(fronts.keys(), int(at * 1000))
            self._evaluator.recall({each: [Point(at, offset)] for each, offset in found.items()})

    async def _unknown(self, snapshot: ClusterSnapshot) -> Mapping[Partition, int]:
        """Return the partitions with waiting messages that arrived before the first snapshot.

        The values are the offsets of the first waiting messages. This runs on a thread, because all
        subscriptions are checked.
        """
        return await asyncio.to_thread(self._evaluator.unknown, snapshot)

    async def _opened(self, known: KnownState) -> dict[str, float]:
        """Return when the oldest retried message of each subscription was read from the log.

        Only subscriptions that retry messages are included. The times are in seconds since the
        epoch.
        """
        trying = [
            each
            for each in known.subscriptions.values()
            if not each.rests and _tries_again(known.loads.get(each.id, ()))
        ][:TRYING_MAX]
        if not trying:
            return {}
        requested = {each.group: _partitions(each, known.topics) for each in trying}
        committed = await self._log.committed(requested)
        opened: dict[str, float] = {}
        for each in trying:
            for position in committed.get(each.group, {}).values():
                progress = parse_progress(each.id, position.offset, position.metadata)
                if progress and progress.oldest_opened_ms is not None:
                    at = progress.oldest_opened_ms / 1000
                    opened[each.id] = min(at, opened.get(each.id, at))
        return opened


def _partitions(subscription: Subscription, topics: Mapping[str, Topic]) -> list[Partition]:
    topic = topics.get(subscription.topic)
    count = topic.partitions if topic else 0
    return [Partition(subscription.topic, index) for index in range(count)]


def _tries_again(loads: Sequence[SubscriptionLoad]) -> bool:
    return any(
        load.waiting_retries
        or (load.in_flight and not load.counts.codes_2xx and load.counts.retries)
        for load in loads
    )
