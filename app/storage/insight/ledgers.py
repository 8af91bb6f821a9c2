"""Stores ledgers: requests for entries, and the entries, each after the one before."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Select, delete, func, select, tuple_
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
from app.domain.job import Claim, Job, JobKind
from app.storage.insight.jobs import OPEN
from app.storage.json_values import from_json, to_json
from app.storage.locks import hold
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
    """Up to when the ledger of a subscription has entries, and the retention of its topic."""

    topic: str
    subscription: str
    until: datetime
    retention: timedelta


class NewEntry(NamedTuple):
    """An entry that was written, and its anchor for the log."""

    entry: LedgerEntry
    anchor: LedgerAnchor


class LedgerRepository:
    """The ledgers, by subscription id. Entries are written once, and never changed."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hold(self, subscription_id: str) -> None:
        """Lock the ledger.

        Other transactions can request or write entries only after this one has ended.
        """
        await hold(self._session, f"angelia ledger {subscription_id}")

    async def waiting(self, subscription_id: str) -> str | None:
        """Return the job for the ledger's next entry, if one is requested and has not ended."""
        row = LedgerRequestRow
        query = select(row.job_id).join(JobRow, JobRow.id == row.job_id)
        return await self._session.scalar(
            query.where(row.subscription_id == subscription_id, OPEN).limit(1)
        )

    async def open_jobs(self) -> int:
        """Return the number of requested jobs of all subscriptions that have not ended."""
        of_ledgers = (JobRow.kind == JobKind.LEDGER.value, OPEN)
        return await self._session.scalar(select(func.count()).where(*of_ledgers)) or 0

    async def dropped(self, subscription_id: str) -> tuple[str, ...]:
        """Return the cancelled retransmissions of the subscription, which it ignores."""
        query = select(SubscriptionRow.settings["dropped"])
        found = await self._session.scalar(query.where(SubscriptionRow.id == subscription_id))
        return tuple(found or ())

    async def add(self, job: Job, subscription: Subscription, request: LedgerRequest) -> None:
        """Store the request for a ledger entry, which the job will make."""
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

    async def extents(self) -> Sequence[Kept]:
        """Return up to when the ledgers of all subscriptions have entries."""
        entry, owner = LedgerEntryRow, SubscriptionRow
        last = select(entry.subscription_id, func.max(entry.to_at).label("at"))
        ends = last.group_by(entry.subscription_id).subquery("ends")
        query = (
            select(
                owner.topic,
                owner.name,
                func.coalesce(ends.c.at, owner.created_at),
                TopicRow.settings["retention"],
            )
            .join(TopicRow, TopicRow.name == owner.topic)
            .join(ends, ends.c.subscription_id == owner.id, isouter=True)
        )
        return [
            Kept(topic, name, until, timedelta(seconds=retention or 0))
            for topic, name, until, retention in await self._session.execute(query)
        ]

    async def overlapping(
        self, subscription_id: str, window: Window, *, after: int, limit: int
    ) -> Sequence[LedgerEntry]:
        """Return the next entries after number `after` that overlap that time."""
        row = LedgerEntryRow
        some = (row.to_at > window.since, row.from_at < window.until)
        query = _entries(subscription_id).where(*some, row.number > after)
        found = await self._session.scalars(query.order_by(row.number).limit(limit))
        return [entry_of(_link(each)) for each in found]

    async def links(self, subscription_id: str, *, after: int, limit: int) -> Sequence[LedgerLink]:
        """Return the next stored entries after number `after`."""
        query = _entries(subscription_id).where(LedgerEntryRow.number > after)
        query = query.order_by(LedgerEntryRow.number).limit(limit)
        return [_link(row) for row in await self._session.scalars(query)]

    async def write(self, claim: Claim) -> NewEntry | None:
        """Write the entry from the findings of that claim.

        After the transaction, append the anchor to the log. Return None if the job was not for a
        ledger.

        Findings of other claims are ignored, and are deleted with the job.

        Raises:
            SecretKeyMissingError: The entry before is signed, and this process has no key.
        """
        requested = await self._session.get(LedgerRequestRow, claim.job_id)
        if requested is None:
            return None
        owner = requested.subscription_id
        await self.hold(owner)
        request = LedgerRequest(**from_json(LedgerRequest, requested.request))
        last = await self.last(owner)
        content = written(owner, request, await self._found(claim))
        keys = keys_of(self._session)
        link = _link_behind(last, request.number, content, keys=keys)
        entry = entry_of(link)
        self._session.add(
            LedgerEntryRow(
                subscription_id=owner,
                job_id=claim.job_id,
                from_at=request.since,
                to_at=request.until,
                missing=alarming(entry.partitions),
                **link._asdict(),
            )
        )
        await self._session.flush()
        anchor = LedgerAnchor(owner, link.number, link.hash)
        return NewEntry(entry, anchor.signed_with(keys.signature_of(anchor.signed)))

    async def short(self) -> Mapping[str, Shortfall]:
        """Return the missing messages of each subscription whose last entry has any."""
        row, later = LedgerEntryRow, aliased(LedgerEntryRow)
        follows = (later.subscription_id == row.subscription_id, later.number > row.number)
        query = select(row.subscription_id, row.number, row.missing, row.from_at, row.to_at)
        query = query.where(row.missing > 0, ~select(later.number).where(*follows).exists())
        return {each[0]: Shortfall(*each[1:]) for each in await self._session.execute(query)}

    async def drop_older(self, kept: timedelta) -> int:
        """Delete entries that ended before that time, oldest first.

        Returns:
            The number of deleted entries, at most DROP_MAX.
        """
        row = LedgerEntryRow
        key = (row.subscription_id, row.number)
        old = select(*key).where(row.to_at < _NOW - kept).order_by(row.to_at).limit(DROP_MAX)
        gone = delete(row).where(tuple_(*key).in_(old)).returning(row.number)
        return len((await self._session.scalars(gone)).all())

    async def _found(self, claim: Claim) -> Finding:
        counts, discards = LedgerCountRow, LedgerDiscardRow
        ours = (counts.job_id == claim.job_id, counts.attempt == claim.attempt)
        counted = await self._session.scalars(select(counts).where(*ours))
        theirs = (discards.job_id == claim.job_id, discards.attempt == claim.attempt)
        recorded = await self._session.scalars(select(discards).where(*theirs))
        return Finding(
            counted=tuple(_counted(row) for row in counted),
            discards=tuple(_discarded(row) for row in recorded),
        )


def keys_of(session: AsyncSession) -> "LedgerKeys":
    """Return this process's keys for signatures, from a database session."""
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


def _counted(row: LedgerCountRow) -> Counted:
    return Counted(
        partition=row.partition,
        carried=row.carried,
        passed=row.passed,
        whose=RecordAudience(row.whose),
        messages=row.messages,
        first=row.first,
    )


def _discarded(row: LedgerDiscardRow) -> RecordedDiscards:
    return RecordedDiscards(
        partition=row.partition, reason=row.reason, status=row.status, messages=row.messages
    )
