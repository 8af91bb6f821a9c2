"""Requests the ledger entries of each day. One process at a time does this."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from app.domain.errors import JobQueueFullError
from app.domain.insight.ledger import next_due
from app.services.insight.ledgers import LedgerService
from app.storage.database import Database
from app.storage.insight.ledgers import Kept, LedgerRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.runtime.leases import LeaseRepository

LEASE: Final = "ledgers"
LOOK_EVERY: Final = timedelta(minutes=5)
# How long the lease is valid. A process that has not renewed it for this time is regarded as dead.
_LEASE_LENGTH: Final = 3 * LOOK_EVERY
# The maximum number of waiting jobs. More are requested when these are finished.
WAITING_MAX: Final = 4
# A job that has at least this many entries gets no further topic. All due entries of a topic are in
# one job, which reads the topic once.
ENTRIES_MAX: Final = 250


class LedgerSchedule:
    """The schedule of one process. While no Spark runner runs, no entries are requested.

    The next entry then covers the whole time since the last one. Nothing is lost.
    """

    def __init__(self, database: Database, ledgers: LedgerService) -> None:
        self._database = database
        self._ledgers = ledgers
        self._holder = uuid4().hex

    async def look(self, now: datetime | None = None) -> None:
        """Request the entries that are due at `now`, the most overdue first.

        Raises:
            UnavailableError: The log or the database cannot be reached.
        """
        async with self._database.transaction() as session:
            lease = LeaseRepository(session)
            ours = await lease.take(LEASE, self._holder, _LEASE_LENGTH)
            if not ours or not await SparkRunnerRepository(session).any_live():
                return
            ledgers = LedgerRepository(session)
            room = WAITING_MAX - await ledgers.open_jobs()
            kept, waiting = await ledgers.extents(), await ledgers.all_waiting()
            failed = await ledgers.failed()
        late = [
            each
            for each in due(kept, now or datetime.now(UTC))
            if each.subscription_id not in waiting
        ]
        for each in batches(late, failed)[: max(room, 0)]:
            # Try again in the next round if the queue is full.
            with suppress(JobQueueFullError):
                await self._ledgers.request_all(each)


def due(kept: Iterable[Kept], now: datetime) -> Sequence[Kept]:
    """Return the ledgers with an entry due at `now`, the most overdue first."""
    dates = [(next_due(each.until, each.retention), each) for each in kept]
    return [each for date, each in sorted(dates) if date <= now]


def batches(late: Sequence[Kept], failed: Mapping[str, str]) -> Sequence[Collection[str]]:
    """Return the subscriptions of each job. Subscriptions of the same topic are in the same job.

    `failed` has the jobs that failed, by subscription. The entries of a failed job are requested in
    two halves, and come last. So an entry that cannot be made is finally alone in its job, and
    delays no other entry.
    """
    topics, again = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for each in late:
        owner = each.subscription_id
        if owner in failed:
            again[failed[owner]].append(owner)
        else:
            topics[each.topic].append(owner)
    made: list[list[str]] = []
    for owners in topics.values():
        if not made or len(made[-1]) + len(owners) > ENTRIES_MAX:
            made.append([])
        made[-1] += owners
    for owners in again.values():
        middle = (len(owners) + 1) // 2
        made += [half for half in (owners[:middle], owners[middle:]) if half]
    return made
