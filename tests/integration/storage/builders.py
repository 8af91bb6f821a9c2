"""Domain values and rows for storage tests."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.changes import Changes, LastChange
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.discards.undelivered import Undelivered
from app.domain.status import (
    AttemptCounts,
    CursorStatus,
    FailedAttempt,
    Output,
    RateMode,
    SubscriptionLoad,
    WorkerStatus,
)
from app.storage.catalogue.changes import PAGE, ChangeFeed, changes_since
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from app.storage.health.workers import WorkerRepository
from app.storage.tables import LedgerEntryRow

GROUP = "shop"
TOPIC = "shop.orders"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

_ids = itertools.count(1)


def a_subscription(name: str = "billing", **settings: Any) -> Subscription:  # noqa: ANN401 - fields of the value
    values = {"id": f"s-{next(_ids)}", "topic": TOPIC, "endpoint": "http://localhost:9/x"}
    return Subscription(name=name, **{**values, **settings})


def a_worker(worker_id: str = "w-1", *, applied: int = 0) -> WorkerStatus:
    return WorkerStatus(
        id=worker_id,
        host="here",
        pid=4_000_000_000,
        applied_change=applied,
        partitions=8,
        started_at=NOON,
        seen_at=NOON,
    )


def a_cursor(subscription_id: str, partition: int = 0, **numbers: Any) -> CursorStatus:  # noqa: ANN401 - fields of the value
    cursor = CursorStatus(
        subscription_id=subscription_id,
        topic=TOPIC,
        partition=partition,
        worker_id="w-1",
        offset=10,
        end=20,
        delivered=7,
        discarded=3,
        volume=700,
    )
    return replace(cursor, **numbers)


def a_failed_attempt(number: int = 0, **settings: Any) -> FailedAttempt:  # noqa: ANN401 - fields of the value
    failed = FailedAttempt(
        message_id=f"f-{number}",
        at=NOON + timedelta(seconds=number),
        attempts=2,
        reason="Message sending failed with status code:503",
        status=503,
        answer="busy",
    )
    return replace(failed, **settings)


def a_load(subscription_id: str, worker_id: str = "w-1", **settings: Any) -> SubscriptionLoad:  # noqa: ANN401 - fields of the value
    load = SubscriptionLoad(
        subscription_id=subscription_id,
        worker_id=worker_id,
        window=timedelta(seconds=60),
        in_flight=3,
        waiting_retries=2,
        counts=AttemptCounts(codes_2xx=5, timeouts=1, bytes=512),
        output=Output(
            rate=1.5, mode=RateMode.SLOW, reason="it was down", since=NOON, next_probe_at=NOON
        ),
        failing=(a_failed_attempt(),),
    )
    return replace(load, **settings)


async def beat_in(session: AsyncSession, worker: WorkerStatus) -> None:
    """Store a heartbeat whose applied change is one of this server."""
    server = (await ChangeFeed(session).last()).server
    await WorkerRepository(session).beat(worker, server=server)


async def changes_after(database: Database, number: int, *, page: int = PAGE) -> Changes:
    """Return what changed after the change of this server with this number."""
    async with database.transaction() as session:
        server = (await ChangeFeed(session).last()).server
    return await changes_since(database, LastChange(number, server), page=page)


async def beat(database: Database, *workers: WorkerStatus) -> None:
    """Store heartbeats that are of now for an hour, however long a test takes."""
    async with database.transaction() as session:
        for worker in workers:
            await beat_in(session, worker)
        await session.execute(text("UPDATE workers SET seen_at = now() + interval '1 hour'"))


async def report(
    database: Database, *loads: SubscriptionLoad, cursors: Sequence[CursorStatus] = ()
) -> None:
    """Store reports that are of now for an hour, however long a test takes."""
    async with database.transaction() as session:
        await StatusRepository(session).write(cursors, loads)
        await session.execute(
            text("UPDATE subscription_loads SET seen_at = now() + interval '1 hour'")
        )


def an_undelivered(offset: int = 0, **settings: Any) -> Undelivered:  # noqa: ANN401 - fields of the value
    discard = Undelivered(
        subscription_id="s-1",
        topic=TOPIC,
        subscription="billing",
        message_id=f"m-{offset}",
        discarded_at=NOON + timedelta(seconds=offset),
        reason="Message sending failed with status code:400",
        status=400,
        last_failure="Message sending failed with status code:400 (at 10.0.0.1)",
        answer="no such order",
        attempts=1,
        partition=0,
        offset=offset,
        body=b'{"a": 1}\x00\xff',
        headers=(("X-Trace", "1"), ("X-Trace", "2")),
        key=b"k\xff",
    )
    return replace(discard, **settings)


async def add_topic(
    session: AsyncSession,
    name: str = TOPIC,
    **settings: Any,  # noqa: ANN401 - fields of the value
) -> Topic:
    """A topic, and its group if there is none."""
    topic = Topic(name=name, **settings)
    if not await GroupRepository(session).exists(topic.group):
        await GroupRepository(session).add(topic.group)
    return await TopicRepository(session).add(topic)


async def add_subscription(database: Database, name: str = "billing") -> Subscription:
    """A subscription, and its topic if there is none."""
    async with database.transaction() as session:
        if TOPIC not in await TopicRepository(session).names():
            await add_topic(session)
        return await SubscriptionRepository(session).add(a_subscription(name))


async def add_entry(
    database: Database, subscription: Subscription, *, number: int, missing: int
) -> None:
    """An entry of its ledger that misses so many."""
    since = NOON + number * timedelta(days=1)
    async with database.transaction() as session:
        session.add(
            LedgerEntryRow(
                subscription_id=subscription.id,
                number=number,
                job_id="",
                from_at=since,
                to_at=since + timedelta(days=1),
                content="{}",
                previous="",
                hash="",
                missing=missing,
            )
        )
