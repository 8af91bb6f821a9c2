"""Ledgers: requests for entries, look-ups of entries, and checks of the chain of entries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import TopicNotFoundError, ValidationFailedError
from app.domain.insight.ledger import LedgerRequest
from app.domain.insight.ledger_anchors import anchored
from app.domain.insight.ledger_chain import (
    Check,
    Evidence,
    KnownHash,
    LedgerLink,
    checked,
    concluded,
    entry_of,
)
from app.domain.insight.ledger_window import Ledger, Survey, requested_window
from app.domain.job import WINDOW_MAX, Job, JobKind, JobScope
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.services.insight.jobs import JobsSeen
from app.services.insight.ledger_anchors import anchors_since
from app.services.insight.ledger_requests import following
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import LedgerRepository, keys_of
from app.storage.insight.spark_runners import SparkRunnerRepository

# The maximum number of entries that are read in one transaction while a chain is checked.
_LINKS: Final = 200


class LedgerService:
    """Requests, reads and checks ledger entries; each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def request(self, topic: str, name: str) -> JobsSeen:
        """Request a ledger entry for the time from the last entry until now.

        If a job already waits or runs for an entry of this ledger, return that job.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            ledgers, jobs = LedgerRepository(session), JobRepository(session)
            await ledgers.hold([known.id])
            waiting = await ledgers.waiting(known.id)
            if waiting is None:
                request = (await self._following([known], ledgers)).get(known.id)
                if request is None:
                    raise TopicNotFoundError(f"The log has no topic {topic}")
                job = await jobs.add(JobKind.LEDGER, _scope([known], [request]))
                await ledgers.add(job, known, request)
                await note(AuditRepository(session), _change(job, request))
            else:
                job = await jobs.get(waiting)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def request_all(self, subscription_ids: Collection[str]) -> Job | None:
        """Request one job for the next ledger entries of these subscriptions, and return the job.

        Subscriptions that do not exist any more are left out, and those whose next entry is already
        requested. If no subscription remains, return None.

        Raises:
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            ledgers, jobs = LedgerRepository(session), JobRepository(session)
            await ledgers.hold(subscription_ids)
            left = set(subscription_ids) - await ledgers.all_waiting()
            known = await SubscriptionRepository(session).with_ids(left)
            requests = await self._following(known, ledgers)
            known = [each for each in known if each.id in requests]
            if not known:
                return None
            job = await jobs.add(JobKind.LEDGERS, _scope(known, list(requests.values())))
            for each in known:
                await ledgers.add(job, each, requests[each.id])
            await note(AuditRepository(session), _many(job, len(known)))
        return job

    async def _following(
        self, known: Sequence[Subscription], ledgers: LedgerRepository
    ) -> Mapping[str, LedgerRequest]:
        # Make the requests for the next entries while the ledgers are locked. So no other request
        # adds an entry in between.
        return await following(known, ledgers, self._log)

    async def between(
        self, topic: str, name: str, *, since: datetime | None, until: datetime | None, limit: int
    ) -> Ledger:
        """Return what the ledger states about the time from `since` to `until`.

        The result has at most the `limit` newest entries of this time. `requested_window` has the
        defaults of `since` and `until`.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: `since` is not before `until`.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            ledgers = LedgerRepository(session)
            last = await ledgers.last(known.id)
            end = None if last is None else last.until
            requested = requested_window(since, until, last=end, now=datetime.now(UTC))
            if requested.since >= requested.until:
                raise ValidationFailedError.of("from", "must be before `to`")
            survey = Survey(requested, born=known.created_at, newest=limit)
            after = 0
            while page := await ledgers.overlapping(known.id, requested, after=after, limit=_LINKS):
                survey.add(page)
                after = page[-1].number
        return survey.ledger()

    async def check(self, topic: str, name: str, known: KnownHash | None = None) -> Check:
        """Check the chain of ledger entries from its first entry on.

        The chain must contain the hash `known`, if this is given. The hashes of the entries must be
        the same as their anchors, which are the copies of the hashes in the log.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            owner = await SubscriptionRepository(session).get(topic, name)
            keys = keys_of(session).verifiers
        evidence = Evidence(subscription_id=owner.id, keys=keys, known=known)
        check, since, hashes = Check(), owner.created_at, dict[int, str]()
        while links := await self._links(owner.id, after=check.last):
            check = checked(links, evidence, before=check)
            if check.broken is not None:
                return check
            hashes |= {each.number: each.hash for each in links}
            # If entries are signed, read only anchors (hashes in the log) from after these entries.
            # Without a signature, the time in an entry proves nothing, so all anchors are read.
            if check.signed_from is not None:
                since = entry_of(links[-1]).until
        check = concluded(check, evidence)
        if check.broken is not None:
            return check
        anchors = await anchors_since(self._log, owner.id, since)
        return anchored(check, hashes, anchors, keys=keys)

    async def exported(
        self, topic: str, name: str, *, after: int, limit: int
    ) -> Sequence[LedgerLink]:
        """Return at most `limit` stored entries of the ledger, after the entry number `after`.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            owner = await SubscriptionRepository(session).get(topic, name)
            return await LedgerRepository(session).links(owner.id, after=after, limit=limit)

    async def public_keys(self) -> Mapping[str, str]:
        """Return the public keys that verify the signatures of ledgers, as PEM, by key id."""
        async with self._database.transaction() as session:
            return keys_of(session).public

    async def _links(self, owner: str, *, after: int) -> Sequence[LedgerLink]:
        async with self._database.transaction() as session:
            return await LedgerRepository(session).links(owner, after=after, limit=_LINKS)


def _scope(subscriptions: Sequence[Subscription], requests: Sequence[LedgerRequest]) -> JobScope:
    since, until = min(each.since for each in requests), max(each.until for each in requests)
    topics = {each.topic for each in subscriptions}
    names = {each.name for each in subscriptions}
    return JobScope(
        # Show at most a year as the time of the job. The entry itself covers the whole time since
        # the last entry, which may be longer.
        start=max(since, until - WINDOW_MAX),
        end=until,
        topic=topics.pop() if len(topics) == 1 else None,
        subscription=names.pop() if len(subscriptions) == 1 else None,
    )


def _change(job: Job, request: LedgerRequest) -> Change:
    details = {"id": job.id, "number": request.number}
    name = f"{job.scope.topic}/{job.scope.subscription}"
    return Change(action=Action.REQUESTED, kind="ledger", name=name, after=details)


def _many(job: Job, entries: int) -> Change:
    details = {"kind": job.kind.value, "topic": job.scope.topic, "entries": entries}
    return Change(action=Action.REQUESTED, kind="job", name=job.id, after=details)
