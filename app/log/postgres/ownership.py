"""Ownership of partitions. An owned partition has one row, as long as its owner is a member.

Each member's database session holds an advisory lock on the member's id. So the lock ends with the
process, however the process ends. The other members detect this within a second, and remove the
member with all its partitions. A member that hangs no longer updates its last contact, and is
removed as well. A member takes a partition only if the partition has no owner. Ids are never
reused: a removed member stays removed, and joins again with a new id.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg
import structlog

from app.domain.errors import LogUnavailableError
from app.log.interface import Assigned, Lost, OwnershipEvent, ReleaseOnce, Revoked
from app.log.postgres.assignment import MemberOffer, PartitionSlot, Plan, Shares, View, planned
from app.log.postgres.connection import (
    CALL_SECONDS_MAX,
    CONNECTION_ERRORS,
    Backoff,
    Connection,
    Connector,
    PostgresConnections,
    bounded,
)
from app.log.postgres.wakeups import CHANNEL, MEMBERS, Appended, Notice
from app.outages import Outage

logger = structlog.get_logger(__name__)

GROUP: Final = "angelia.workers"
_POLL_SECONDS: Final = 1.0
# A member is removed after so much time without contact. A member has contact in each round of its
# work, and no round takes so long.
_UNSEEN: Final = "10 s"
_LOCK_CLASS: Final = 0x414E474C
# Changes of ownership do not wait for the server's disk. If the server crashes, the sessions of all
# members end, and all ownership ends too.
_SETTINGS: Final = "SET synchronous_commit = off;"

_JOIN: Final = f"""
WITH joined AS (
  INSERT INTO log_members (group_name, name, capacity, topics)
  VALUES (%(group)s, %(member)s, %(capacity)s, %(topics)s) RETURNING id
)
SELECT id, pg_advisory_lock({_LOCK_CLASS}, id),
       pg_notify('{CHANNEL}', '{MEMBERS} ' || %(group)s) FROM joined
""".encode()  # noqa: S608 - the statement is made of constants only
_SEEN: Final = b"UPDATE log_members SET seen_at = clock_timestamp() WHERE id = %s"
_SUBSCRIBE: Final = b"UPDATE log_members SET topics = %s WHERE id = %s"
_REMOVE_DEAD: Final = f"""
DELETE FROM log_members m WHERE group_name = %(group)s AND id <> %(me)s AND (
  seen_at < clock_timestamp() - interval '{_UNSEEN}' OR NOT EXISTS (
    SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted
      AND l.classid = {_LOCK_CLASS} AND l.objid = m.id::oid AND l.objsubid = 2
  )
) RETURNING id, name
""".encode()  # noqa: S608 - the statement is made of constants only
_MEMBERS: Final = b"SELECT id, capacity, topics FROM log_members WHERE group_name = %s"
_SLOTS: Final = b"""
SELECT t.id, p.partition, t.name, o.member_id
FROM log_topics t JOIN log_partitions p ON p.topic_id = t.id
LEFT JOIN log_owners o ON o.topic_id = p.topic_id AND o.partition = p.partition
WHERE t.name = ANY(%s)
"""
_TAKE: Final = b"""
INSERT INTO log_owners (topic_id, partition, member_id)
SELECT w.topic_id, w.partition, %s FROM unnest(%s::int4[], %s::int4[]) AS w(topic_id, partition)
JOIN log_partitions p USING (topic_id, partition)
ORDER BY 1, 2 ON CONFLICT DO NOTHING RETURNING topic_id, partition
"""
_RELEASE: Final = b"""
DELETE FROM log_owners o USING unnest(%s::int4[], %s::int4[]) AS w(topic_id, partition)
WHERE o.member_id = %s AND o.topic_id = w.topic_id AND o.partition = w.partition
"""
_LEAVE: Final = b"DELETE FROM log_members WHERE id = %s"
_TELL: Final = f"SELECT pg_notify('{CHANNEL}', '{MEMBERS} ' || %s)".encode()


class RemovedError(Exception):
    """The other members removed this member, because it had no contact for too long."""


@dataclass(slots=True, eq=False)
class Revocation:
    """Partitions that are being revoked from a member.

    The member keeps the partitions until the code that gets its events releases them, or until
    `deadline` (in seconds of the event loop's clock).
    """

    slots: frozenset[PartitionSlot]
    deadline: float
    released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """The name, capacity and namespace with which a process joins as a member."""

    member: str
    capacity: float
    namespace: str
    revoke_timeout: timedelta

    @property
    def group(self) -> str:
        """The ownership group of the namespace."""
        return self.namespace + GROUP


class PostgresOwnership:
    """One member of the group: a task with its own connection, which works in rounds."""

    def __init__(self, connector: Connector, membership: MemberIdentity) -> None:
        self._connector = connector
        self._membership = membership
        self._id = 0
        self._topics: frozenset[str] = frozenset()
        self._topics_stored: frozenset[str] = frozenset()
        self._held: set[PartitionSlot] = set()
        self._revocations: list[Revocation] = []
        self._shares = Shares()
        # The events for the receiver. There is at most one event for each partition and change of
        # its owner, so the queue stays small.
        self._events: asyncio.Queue[OwnershipEvent | None] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._outage = Outage(logger, "log_membership_lost")

    def subscribe(self, topics: Collection[str]) -> None:
        """Let this member get partitions of these topics, and no partitions of other topics."""
        self._topics = frozenset(topics)
        self._wake.set()

    async def events(self) -> AsyncIterator[OwnershipEvent]:
        """Yield assignments and revocations in order.

        The events end when the member has left the group.
        """
        while (event := await self._events.get()) is not None:
            yield event

    def receive(self, notice: Notice) -> None:
        """Start a round after any notice except new records."""
        if not isinstance(notice, Appended):
            self._wake.set()

    async def run(self) -> None:
        """Take part as a member until cancelled. Join again whenever the connection is lost."""
        backoff = Backoff()
        while True:
            try:
                await self._take_part(backoff)
            except (*CONNECTION_ERRORS, RemovedError) as error:
                self._outage.failed(member=self._membership.member, error=str(error))
            self._lose(frozenset(self._held))
            self._revocations.clear()
            await backoff.wait()

    async def leave(self, connections: PostgresConnections) -> None:
        """Release all partitions of this member immediately.

        If this fails, the other members notice that this member has ended.
        """
        self._events.put_nowait(None)

        async def leave(connection: Connection) -> None:
            await connection.execute(_LEAVE, [self._id])
            await connection.execute(_TELL, [self._membership.group])

        try:
            await connections.run(leave)
        except LogUnavailableError as error:
            logger.warning("log_leave_failed", error=error.message)

    async def _take_part(self, backoff: Backoff) -> None:
        async with self._connector.connected("ownership", settings=_SETTINGS) as connection:
            with bounded(connection, CALL_SECONDS_MAX):
                await self._join(connection)
            while True:
                self._wake.clear()
                with bounded(connection, CALL_SECONDS_MAX):
                    await self._round(connection)
                backoff.reset()
                self._outage.ended()
                await self._woken()

    async def _join(self, connection: Connection) -> None:
        self._topics_stored = self._topics
        values = {
            "group": self._membership.group,
            "member": self._membership.member,
            "capacity": self._membership.capacity,
            "topics": self._named(self._topics),
        }
        # The statement takes the member's lock before its row becomes visible. So no other member
        # finds the row without the lock, and removes it.
        cursor = await connection.execute(_JOIN, values)
        ((self._id, *_),) = await cursor.fetchall()

    async def _round(self, connection: Connection) -> None:
        """Read the state of the group once, and do what this member has to do."""
        await self._report_seen(connection)
        await self._remove_dead(connection)
        await self._release(connection)
        plan = planned(
            await self._viewed(connection),
            self._id,
            held=self._held,
            revoking={slot for revocation in self._revocations for slot in revocation.slots},
            shares=self._shares,
        )
        self._lose(plan.lost)
        self._revoke(plan)
        await self._take(connection, plan)

    async def _woken(self) -> None:
        """Wait for the next round.

        It begins after a notice, after a second, or when an owner must have given up a partition.
        """
        loop = asyncio.get_running_loop()
        deadlines = [revocation.deadline for revocation in self._revocations]
        try:
            async with asyncio.timeout_at(min([loop.time() + _POLL_SECONDS, *deadlines])):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _report_seen(self, connection: Connection) -> None:
        if (await connection.execute(_SEEN, [self._id])).rowcount == 0:
            raise RemovedError("the other members removed this one")
        topics = self._topics
        if topics != self._topics_stored:
            await connection.execute(_SUBSCRIBE, [self._named(topics), self._id])
            await connection.execute(_TELL, [self._membership.group])
            self._topics_stored = topics

    async def _remove_dead(self, connection: Connection) -> None:
        values = {"group": self._membership.group, "me": self._id}
        dead = await (await connection.execute(_REMOVE_DEAD, values)).fetchall()
        if dead:
            logger.info("log_members_removed", members=[name for _, name in dead])
            await connection.execute(_TELL, [self._membership.group])

    async def _viewed(self, connection: Connection) -> View:
        cursor = await connection.execute(_MEMBERS, [self._membership.group])
        members = {
            member_id: MemberOffer(capacity, frozenset(map(self._unnamed, topics)))
            for member_id, capacity, topics in await cursor.fetchall()
        }
        # Read also the topics of owned partitions to which this member no longer subscribes, so
        # that these partitions are revoked.
        names = self._topics_stored | {slot.topic for slot in self._held}
        cursor = await connection.execute(_SLOTS, [self._named(names)])
        return View(members, self._owners(await cursor.fetchall()))

    def _owners(self, rows: list[tuple[Any, ...]]) -> Mapping[PartitionSlot, int | None]:
        return {
            PartitionSlot(topic_id, index, self._unnamed(name)): owner
            for topic_id, index, name, owner in rows
        }

    def _lose(self, slots: frozenset[PartitionSlot]) -> None:
        if slots:
            self._held -= slots
            self._events.put_nowait(Lost(frozenset(slot.partition for slot in slots)))

    def _revoke(self, plan: Plan) -> None:
        if not plan.revoke:
            return
        timeout = self._membership.revoke_timeout.total_seconds()
        revocation = Revocation(plan.revoke, asyncio.get_running_loop().time() + timeout)

        def release() -> None:
            revocation.released = True
            self._wake.set()

        self._revocations.append(revocation)
        partitions = frozenset(slot.partition for slot in plan.revoke)
        self._events.put_nowait(Revoked(partitions, ReleaseOnce(release)))

    async def _release(self, connection: Connection) -> None:
        """Give up the revoked partitions that were released, or whose deadline has passed."""
        now = asyncio.get_running_loop().time()
        over = [r for r in self._revocations if r.released or r.deadline <= now]
        slots = {slot for revocation in over for slot in revocation.slots} & self._held
        if slots:
            await connection.execute(_RELEASE, [*_columns(slots), self._id])
            await connection.execute(_TELL, [self._membership.group])
        self._held -= slots
        self._revocations = [r for r in self._revocations if r not in over]

    async def _take(self, connection: Connection, plan: Plan) -> None:
        """Take the partitions that have no owner.

        If another member takes a partition first, the next round finds that out.
        """
        if not plan.take:
            return
        try:
            cursor = await connection.execute(_TAKE, [self._id, *_columns(plan.take)])
        except psycopg.errors.ForeignKeyViolation:
            # A topic was deleted, or this member was removed. Start another round, which finds out
            # which of the two happened.
            self._wake.set()
            return
        taken = set(await cursor.fetchall())
        slots = frozenset(slot for slot in plan.take if slot[:2] in taken)
        self._held |= slots
        if slots:
            self._events.put_nowait(Assigned(frozenset(slot.partition for slot in slots)))

    def _named(self, topics: Collection[str]) -> list[str]:
        return sorted(self._membership.namespace + topic for topic in topics)

    def _unnamed(self, name: str) -> str:
        return name.removeprefix(self._membership.namespace)


def _columns(slots: Collection[PartitionSlot]) -> tuple[list[int], list[int]]:
    return [slot.topic_id for slot in slots], [slot.number for slot in slots]
