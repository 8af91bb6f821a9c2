"""Requests the due ledger entries of all subscriptions. One process at a time does this."""

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
# How long the lease of the schedule is valid. A process that has not renewed its lease for this
# time is regarded as dead.
_LEASE_LENGTH: Final = 3 * LOOK_EVERY
# The maximum number of jobs of the schedule that wait or run at the same time. Further jobs are
# requested when some of them have ended.
WAITING_MAX: Final = 4
# The maximum number of ledger entries in a job with several topics. All due entries of one topic
# are in the same job, even if they are more, because the job then reads the topic only once.
ENTRIES_MAX: Final = 250


class LedgerSchedule:
    """The schedule of ledger entries in one process.

    While no Spark runner runs, no entries are requested. Nothing is lost: the next entry covers the
    whole time since the last entry.
    """

    def __init__(self, database: Database, ledgers: LedgerService) -> None:
        self._database = database
        self._ledgers = ledgers
        self._holder = uuid4().hex

    async def look(self, now: datetime | None = None) -> None:
        """Request the ledger entries that are due at `now`. The longest overdue come first.

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
            # Ignore the error if too many jobs are waiting. The next round tries again to request
            # these ledger entries.
            with suppress(JobQueueFullError):
                await self._ledgers.request_all(each)


def due(kept: Iterable[Kept], now: datetime) -> Sequence[Kept]:
    """Return the ledgers whose next entry is due at `now`. The longest overdue come first."""
    dates = [(next_due(each.until, each.retention), each) for each in kept]
    return [each for date, each in sorted(dates) if date <= now]


def batches(late: Sequence[Kept], failed: Mapping[str, str]) -> Sequence[Collection[str]]:
    """Divide subscriptions with a due ledger entry into jobs. Return the subscriptions of each job.

    Subscriptions of the same topic are in the same job. `failed` has the id of the last job of a
    subscription, if this job failed. The entries of a failed job are divided into two jobs, which
    come last. So an entry that cannot be made is finally alone in its job, and delays no other
    entry.
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
