"""Stores ledgers: the requests for entries, and the entries in their order."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Select, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import SecretKeyMissingError
from app.domain.insight.ledger import (
    Counted,
    Finding,
    LedgerEntry,
    LedgerRequest,
    RecordAudience,
    RecordedDiscards,
)
from app.domain.insight.ledger_anchors import LedgerAnchor
from app.domain.insight.ledger_chain import NOTHING, LedgerLink, entry_of, hash_of, written
from app.domain.insight.ledger_missing import Shortfall, alarming
from app.domain.insight.ledger_window import Window
from app.domain.job import Claim, Job, JobKind, JobState
from app.storage.insight.jobs import OPEN
from app.storage.json_values import from_json, to_json
from app.storage.locks import hold_all
from app.storage.sealing import vault_of
from app.storage.tables import (
    JobRow,
    LedgerCountRow,
    LedgerDiscardRow,
    LedgerEntryRow,
    LedgerRequestRow,
    SubscriptionRow,
    TopicRow,
)
from app.vault import HOW_TO_SET

if TYPE_CHECKING:
    from app.ledger_keys import LedgerKeys

# The maximum number of entries that one statement deletes.
DROP_MAX: Final = 1_000
_NOW: Final = func.clock_timestamp()


class Kept(NamedTuple):
    """The time up to which a subscription's ledger has entries, and the retention of its topic."""

    topic: str
    subscription_id: str
    until: datetime
    retention: timedelta


class NewEntry(NamedTuple):
    """A new ledger entry, and its anchor: the entry's hash and signature, for the log."""

    entry: LedgerEntry
    anchor: LedgerAnchor


class LedgerRepository:
    """The ledgers, by subscription id. Entries are written once, and never changed."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hold(self, subscription_ids: Collection[str]) -> None:
        """Lock these ledgers, all at the same time.

        Until this transaction ends, no other transaction can request or write entries of these
        ledgers.
        """
        await hold_all(self._session, [f"angelia ledger {each}" for each in subscription_ids])

    async def waiting(self, subscription_id: str) -> str | None:
        """Return the id of the job that will write the ledger's next entry, if there is one."""
        row = LedgerRequestRow
        query = select(row.job_id).join(JobRow, JobRow.id == row.job_id)
        return await self._session.scalar(
            query.where(row.subscription_id == subscription_id, OPEN).limit(1)
        )

    async def all_waiting(self) -> frozenset[str]:
        """Return the ids of subscriptions for which an unfinished job will write an entry."""
        row = LedgerRequestRow
        query = select(row.subscription_id).join(JobRow, JobRow.id == row.job_id).where(OPEN)
        return frozenset(await self._session.scalars(query))

    async def open_jobs(self) -> int:
        """Return the number of jobs that write entries of many ledgers and have not ended."""
        of_ledgers = (JobRow.kind == JobKind.LEDGERS.value, OPEN)
        return await self._session.scalar(select(func.count()).where(*of_ledgers)) or 0

    async def failed(self) -> Mapping[str, str]:
        """Return, by subscription, the id of its last ledger job, if this job has failed."""
        row = LedgerRequestRow
        last = (
            select(row.subscription_id, row.job_id, JobRow.state)
            .join(JobRow, JobRow.id == row.job_id)
            .ext(distinct_on(row.subscription_id))
            .order_by(row.subscription_id, JobRow.requested_at.desc())
            .subquery("last")
        )
        query = select(last.c.subscription_id, last.c.job_id)
        found = await self._session.execute(query.where(last.c.state == JobState.FAILED.value))
        return {row.subscription_id: row.job_id for row in found}

    async def dropped(self, subscription_ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the ids of each subscription's cancelled retransmissions.

        The subscription gets no more of their messages.
        """
        row = SubscriptionRow
        query = select(row.id, row.settings["dropped"]).where(row.id.in_(subscription_ids))
        return {owner: tuple(found or ()) for owner, found in await self._session.execute(query)}

    async def add(self, job: Job, subscription: Subscription, request: LedgerRequest) -> None:
        """Store the request for a ledger entry. The job will write the entry."""
        self._session.add(
            LedgerRequestRow(
                job_id=job.id,
                subscription_id=subscription.id,
                topic=subscription.topic,
                subscription=subscription.name,
                request=to_json(request),
            )
        )
        await self._session.flush()

    async def last(self, subscription_id: str) -> LedgerEntry | None:
        """Return the last entry of the subscription's ledger."""
        query = _entries(subscription_id).order_by(LedgerEntryRow.number.desc()).limit(1)
        row = await self._session.scalar(query)
        return None if row is None else entry_of(_link(row))

    async def last_of(self, subscription_ids: Collection[str]) -> Mapping[str, LedgerEntry]:
        """Return the last entry of each ledger. Ledgers without an entry are left out."""
        row = LedgerEntryRow
        query = select(row).where(row.subscription_id.in_(subscription_ids))
        query = query.ext(distinct_on(row.subscription_id))
        query = query.order_by(row.subscription_id, row.number.desc())
        found = await self._session.scalars(query)
        return {each.subscription_id: entry_of(_link(each)) for each in found}

    async def extents(self) -> Sequence[Kept]:
        """Return, for each subscription, the time up to which its ledger has entries."""
        entry, owner = LedgerEntryRow, SubscriptionRow
        last = select(entry.subscription_id, func.max(entry.to_at).label("at"))
        ends = last.group_by(entry.subscription_id).subquery("ends")
        query = (
            select(
                owner.topic,
                owner.id,
                func.coalesce(ends.c.at, owner.created_at),
                TopicRow.settings["retention"],
            )
            .join(TopicRow, TopicRow.name == owner.topic)
            .join(ends, ends.c.subscription_id == owner.id, isouter=True)
        )
        return [
            Kept(topic, owner_id, until, timedelta(seconds=retention or 0))
            for topic, owner_id, until, retention in await self._session.execute(query)
        ]

    async def overlapping(
        self, subscription_id: str, window: Window, *, after: int, limit: int
    ) -> Sequence[LedgerEntry]:
        """Return the next `limit` entries after the number `after` that overlap `window`."""
        row = LedgerEntryRow
        some = (row.to_at > window.since, row.from_at < window.until)
        query = _entries(subscription_id).where(*some, row.number > after)
        found = await self._session.scalars(query.order_by(row.number).limit(limit))
        return [entry_of(_link(each)) for each in found]

    async def links(self, subscription_id: str, *, after: int, limit: int) -> Sequence[LedgerLink]:
        """Return the next `limit` entries after the number `after`, with exact text and hash."""
        query = _entries(subscription_id).where(LedgerEntryRow.number > after)
        query = query.order_by(LedgerEntryRow.number).limit(limit)
        return [_link(row) for row in await self._session.scalars(query)]

    async def write(self, claim: Claim) -> Sequence[NewEntry]:
        """Write the requested entries from the counts that this claim of the job has stored.

        The counts are then deleted. The result is empty if the job was not for ledgers. After the
        transaction, the caller appends the anchors of the new entries to the log.

        Raises:
            SecretKeyMissingError: The last entry of a ledger is signed, and this process has no
                key.
        """
        row = LedgerRequestRow
        query = select(row).where(row.job_id == claim.job_id).order_by(row.subscription_id)
        requested = {each.subscription_id: each for each in await self._session.scalars(query)}
        if not requested:
            return ()
        await self.hold(requested)
        last = await self.last_of(requested)
        found = await self.found(claim)
        keys = keys_of(self._session)
        new = [
            self._written(each, last.get(owner), finding=found.get(owner, Finding()), keys=keys)
            for owner, each in requested.items()
        ]
        await self._session.flush()
        for counted in (LedgerCountRow, LedgerDiscardRow):
            await self._session.execute(delete(counted).where(counted.job_id == claim.job_id))
        return new

    def _written(
        self,
        requested: LedgerRequestRow,
        last: LedgerEntry | None,
        *,
        finding: Finding,
        keys: "LedgerKeys",
    ) -> NewEntry:
        owner = requested.subscription_id
        request = LedgerRequest(**from_json(LedgerRequest, requested.request))
        content = written(owner, request, finding)
        link = _link_behind(last, request.number, content, keys=keys)
        entry = entry_of(link)
        self._session.add(
            LedgerEntryRow(
                subscription_id=owner,
                job_id=requested.job_id,
                from_at=request.since,
                to_at=request.until,
                missing=alarming(entry.partitions),
                **link._asdict(),
            )
        )
        anchor = LedgerAnchor(owner, link.number, link.hash)
        return NewEntry(entry, anchor.signed_with(keys.signature_of(anchor.signed)))

    async def short(self) -> Mapping[str, Shortfall]:
        """Return, by subscription, the missing messages of its last entry.

        Subscriptions whose last entry has no missing messages are left out.
        """
        row, later = LedgerEntryRow, aliased(LedgerEntryRow)
        follows = (later.subscription_id == row.subscription_id, later.number > row.number)
        query = select(row.subscription_id, row.number, row.missing, row.from_at, row.to_at)
        query = query.where(row.missing > 0, ~select(later.number).where(*follows).exists())
        return {each[0]: Shortfall(*each[1:]) for each in await self._session.execute(query)}

    async def drop_older(self, kept: timedelta) -> int:
        """Delete the oldest entries that ended more than `kept` ago; return how many.

        At most DROP_MAX entries are deleted.
        """
        row = LedgerEntryRow
        key = (row.subscription_id, row.number)
        old = select(*key).where(row.to_at < _NOW - kept).order_by(row.to_at).limit(DROP_MAX)
        gone = delete(row).where(tuple_(*key).in_(old)).returning(row.number)
        return len((await self._session.scalars(gone)).all())

    async def found(self, claim: Claim) -> Mapping[str, Finding]:
        """Return, by subscription, the sum of the counts that all tasks of this claim stored."""
        counts = await self._counts(claim)
        discards = await self._discards(claim)
        return {
            owner: Finding(
                counted=tuple(counts.get(owner, ())), discards=tuple(discards.get(owner, ()))
            )
            for owner in counts.keys() | discards.keys()
        }

    async def _counts(self, claim: Claim) -> Mapping[str, Sequence[Counted]]:
        row = LedgerCountRow
        alike = (row.subscription_id, row.partition, row.carried, row.passed, row.audience)
        query = select(*alike, func.sum(row.messages), func.min(row.first)).group_by(*alike)
        query = query.where(row.job_id == claim.job_id, row.attempt == claim.attempt)
        found = defaultdict[str, list[Counted]](list)
        for (
            owner,
            partition,
            carried,
            passed,
            audience,
            messages,
            first,
        ) in await self._session.execute(query):
            found[owner].append(
                Counted(
                    partition=partition,
                    carried=carried,
                    passed=passed,
                    audience=RecordAudience(audience),
                    messages=int(messages),
                    first=first,
                )
            )
        return found

    async def _discards(self, claim: Claim) -> Mapping[str, Sequence[RecordedDiscards]]:
        row = LedgerDiscardRow
        alike = (row.subscription_id, row.partition, row.reason, row.status)
        query = select(*alike, func.sum(row.messages)).group_by(*alike)
        query = query.where(row.job_id == claim.job_id, row.attempt == claim.attempt)
        found = defaultdict[str, list[RecordedDiscards]](list)
        for owner, partition, reason, status, messages in await self._session.execute(query):
            found[owner].append(
                RecordedDiscards(
                    partition=partition, reason=reason, status=status, messages=int(messages)
                )
            )
        return found


def keys_of(session: AsyncSession) -> "LedgerKeys":
    """Return this process's keys for signatures. The keys are made from the vault of `session`."""
    from app.ledger_keys import SEEDS, SHARED, LedgerKeys  # noqa: PLC0415 - 8 MB, seldom needed

    vault = vault_of(session)
    return LedgerKeys(vault.derived(SEEDS), vault.derived(SHARED))


def _link_behind(
    last: LedgerEntry | None, number: int, content: str, *, keys: "LedgerKeys"
) -> LedgerLink:
    if last is not None and last.key_id is not None and not keys:
        raise SecretKeyMissingError(f"Its ledger is signed, and goes on so: {HOW_TO_SET}")
    previous = NOTHING if last is None else last.hash
    hash_ = hash_of(previous, content)
    return LedgerLink(number, content, previous, hash_, *keys.signature_of(hash_))


def _entries(subscription_id: str) -> Select[LedgerEntryRow]:
    return select(LedgerEntryRow).where(LedgerEntryRow.subscription_id == subscription_id)


def _link(row: LedgerEntryRow) -> LedgerLink:
    return LedgerLink(
        row.number, row.content, row.previous, row.hash, key_id=row.key_id, signature=row.signature
    )
