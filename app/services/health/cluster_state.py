"""Reads the state of all subscriptions from the database; after the first time, only changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from app.domain.catalogue.changes import NO_CHANGE, Changes, LastChange
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.health.evaluator import Seen
from app.domain.health.pace import WINDOW
from app.domain.insight.ledger_missing import Shortfall
from app.domain.status import SubscriptionLoad
from app.services.health.collector import KnownState
from app.storage.catalogue.changes import changes_since
from app.storage.database import Database
from app.storage.health.cluster_snapshot import ClusterSnapshotRepository, Reports
from app.storage.insight.ledgers import LedgerRepository

# A worker whose last report is older than this is regarded as dead. A worker's report about a
# subscription's load is ignored if the report is older than this.
REPORTED_WITHIN: Final = timedelta(seconds=5)


@dataclass(slots=True)
class Register:
    """All topics, subscriptions and reports of workers, in memory.

    Each read of the database gets only what has changed.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    cursors: dict[str, dict[int, Seen]] = field(default_factory=dict)
    # The time of the last report about a cursor, by subscription id.
    reported: dict[str, float] = field(default_factory=dict)
    last: LastChange = NO_CHANGE
    is_new: bool = True

    async def learn(self, database: Database) -> KnownState:
        """Read what has changed in the database since the last call; return the whole state.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        changes = await changes_since(database, self.last)
        # Read the workers' reports of the last time span WINDOW again. Some of them may not have
        # been committed yet at the last read.
        since = None if self.is_new else WINDOW
        async with database.transaction() as session:
            snapshots = ClusterSnapshotRepository(session)
            reports = await snapshots.reports(since=since, within=REPORTED_WITHIN)
            short = await LedgerRepository(session).short()
        self._apply(changes)
        self._take_in(reports)
        self.is_new = False
        return self._known(reports, short)

    def _apply(self, changes: Changes) -> None:
        changes = changes.with_deletions(self.topics, self.subscriptions)
        self.topics |= {topic.name: topic for topic in changes.topics}
        self.subscriptions |= {each.id: each for each in changes.subscriptions}
        for name in changes.deleted_topics:
            self.topics.pop(name, None)
        for gone in changes.deleted_subscription_ids:
            self.subscriptions.pop(gone, None)
            self.cursors.pop(gone, None)
            self.reported.pop(gone, None)
        self.last = changes.last

    def _take_in(self, reports: Reports) -> None:
        for status, ago in reports.cursors:
            owner = status.subscription_id
            if owner in self.subscriptions:
                at = reports.now - ago
                self.cursors.setdefault(owner, {})[status.partition] = Seen(status, at)
                self.reported[owner] = max(at, self.reported.get(owner, at))

    def _known(self, reports: Reports, short: Mapping[str, Shortfall]) -> KnownState:
        loads = _by_subscription(reports.loads)
        recent = reports.now - WINDOW.total_seconds()
        moved = {each for each, at in self.reported.items() if at >= recent}
        return KnownState(
            now=reports.now,
            topics=self.topics,
            subscriptions=self.subscriptions,
            cursors=self.cursors,
            workers=reports.workers,
            loads=loads,
            moved=moved | loads.keys(),
            short=short,
        )


def _by_subscription(loads: Sequence[SubscriptionLoad]) -> dict[str, list[SubscriptionLoad]]:
    found: dict[str, list[SubscriptionLoad]] = {}
    for load in loads:
        found.setdefault(load.subscription_id, []).append(load)
    return found
