"""Ledgers: requests for entries, look-ups, and checks of their chain."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress, parse_progress
from app.domain.errors import ValidationFailedError
from app.domain.insight.ledger import LedgerEntry, LedgerRequest, Mark, mark_of
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
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.services.insight.jobs import JobsSeen
from app.services.insight.ledger_anchors import anchors_since
from app.services.log_positions import bounds_of
from app.services.stream_ends import stream_spans
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import LedgerRepository, keys_of
from app.storage.insight.spark_runners import SparkRunnerRepository

_MOMENT: Final = timedelta(milliseconds=1)
# The maximum number of entries that are read in one transaction while a chain is checked.
_LINKS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The state of a subscription at one time: its position in each partition."""

    subscription: Subscription
    at: datetime
    marks: Sequence[Mark]


class LedgerService:
    """Requests, reads and checks ledger entries; each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def request(self, topic: str, name: str) -> JobsSeen:
        """Request an entry from the last one until now.

        If a job is already writing an entry, return that job.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            ledgers, jobs = LedgerRepository(session), JobRepository(session)
            await ledgers.hold(known.id)
            waiting = await ledgers.waiting(known.id)
            if waiting is None:
                request = await self._following(known, ledgers)
                job = await jobs.add(JobKind.LEDGER, _scope(known, request))
                await ledgers.add(job, known, request)
                await note(AuditRepository(session), _change(job, request))
            else:
                job = await jobs.get(waiting)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def between(
        self, topic: str, name: str, *, since: datetime | None, until: datetime | None, limit: int
    ) -> Ledger:
        """Return what the ledger states about a time, with at most the `limit` newest entries.

        See `requested_window` for missing arguments.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: The time ends before it begins.
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
        """Check the chain of entries from its first entry on. It must contain the `known` hash.

        The entries must also match the anchors in the log.

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
            # Read only newer anchors if an entry is signed. Without a signature, the time of an
            # entry proves nothing, and all anchors are read.
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
        """Return the stored entries after number `after`, at most `limit`.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            owner = await SubscriptionRepository(session).get(topic, name)
            return await LedgerRepository(session).links(owner.id, after=after, limit=limit)

    async def public_keys(self) -> Mapping[str, str]:
        """Return the public keys that verify the ledgers of this service, as PEM by id."""
        async with self._database.transaction() as session:
            return keys_of(session).public

    async def _links(self, owner: str, *, after: int) -> Sequence[LedgerLink]:
        async with self._database.transaction() as session:
            return await LedgerRepository(session).links(owner, after=after, limit=_LINKS)

    async def _following(self, known: Subscription, ledgers: LedgerRepository) -> LedgerRequest:
        """Return the request for the entry after the last one, up to now."""
        last = await ledgers.last(known.id)
        look = await self._look(known)
        request = _behind(last, look)
        # Read the streams and the cancellations after the positions. Everything about messages that
        # were finished at the positions is then in the streams.
        streams = tuple(await stream_spans(self._log))
        return replace(request, streams=streams, dropped=await ledgers.dropped(known.id))

    async def _look(self, subscription: Subscription) -> _Look:
        at = datetime.now(UTC)
        partitions = await self._log.partitions(subscription.topic)
        marks = await self._marks(subscription, partitions)
        return _Look(subscription=subscription, at=at, marks=marks)

    async def _marks(
        self, subscription: Subscription, partitions: Collection[Partition]
    ) -> Sequence[Mark]:
        """Return the commits and the ends of partitions.

        Ends are read last, so that no commit is beyond its end.
        """
        found = await self._log.committed({subscription.group: partitions})
        committed = found.get(subscription.group, {})
        bounds = await bounds_of(self._log, partitions)
        marks = []
        for partition in partitions:
            progress = _beginning(subscription, partition.index)
            if partition in committed:
                there = committed[partition]
                known = parse_progress(subscription.id, there.offset, there.metadata)
                # Ignore the commit of an older subscription with the same name. This subscription
                # has not started here.
                progress = known or progress
            marks.append(mark_of(partition.index, progress, bounds[partition].end))
        return marks


def _beginning(subscription: Subscription, partition: int) -> Progress:
    return Progress(subscription_id=subscription.id, offset=subscription.start.get(partition, 0))


def _behind(last: LedgerEntry | None, look: _Look) -> LedgerRequest:
    """Return the request for the ledger entry that follows the entry `last`.

    Without `last`, the entry begins at the creation of the subscription.
    """
    opening = _first_opening(look) if last is None else last.closing
    since = _first_since(look) if last is None else last.until
    return LedgerRequest(
        number=1 if last is None else last.number + 1,
        since=since,
        # Make sure that the end is after the start, because the clocks of processes differ.
        until=max(look.at, since + _MOMENT),
        opening=tuple(opening),
        closing=tuple(look.marks),
    )


def _first_opening(look: _Look) -> Sequence[Mark]:
    start = look.subscription.start
    if not start:
        # Begin now. An old version did not store the start of the subscription, so the entry claims
        # nothing about earlier messages.
        return look.marks
    return [
        mark_of(mark.partition, _beginning(look.subscription, mark.partition), end=0)
        for mark in look.marks
    ]


def _first_since(look: _Look) -> datetime:
    subscription = look.subscription
    # Begin where the first entry begins. The ledger claims nothing about the time before.
    began = subscription.created_at if subscription.start else None
    return began or look.at


def _scope(subscription: Subscription, request: LedgerRequest) -> JobScope:
    # Limit the job's time to a year. The entry itself covers the whole time since the last one.
    start = max(request.since, request.until - WINDOW_MAX)
    topic, name = subscription.topic, subscription.name
    return JobScope(start=start, end=request.until, topic=topic, subscription=name)


def _change(job: Job, request: LedgerRequest) -> Change:
    said = {"id": job.id, "number": request.number}
    name = f"{job.scope.topic}/{job.scope.subscription}"
    return Change(action=Action.REQUESTED, kind="ledger", name=name, after=said)
