"""Membership in the ownership group, with kafka-python's group coordinator but no consumer.

A KafkaConsumer of kafka-python has a fetcher, which takes more time with every partition, even if
it reads no partition. The coordinator alone can join the group, send heartbeats and rebalance. This
module runs the coordinator on the I/O thread, and passes on the events of the coordinator.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Collection
from datetime import timedelta
from typing import Final, Protocol

import structlog
from kafka import errors
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener, SubscriptionState
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.wakeup_notifier import WakeupNotifier
from kafka.protocol.consumer.group import HeartbeatRequest, LeaveGroupRequest

from app.domain.message import Partition
from app.log.interface import Assigned, Lost, OwnershipEvent, ReleaseOnce, Revoked
from app.log.kafka.assignor import HashRingAssignor
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import FAILED_TRY, STALE_COORDINATOR_CODES, Client
from app.log.kafka.group_coordinator import GroupCoordinator

# The group removes a member that sent no heartbeat for this time. This is the lowest value that
# brokers allow by default.
SESSION_TIMEOUT_MS: Final = 6000
HEARTBEAT_MS: Final = 500

# How long after the last contact with the group this member may use its partitions, in seconds.
# This time is shorter than the time after which the group removes the member, so that two members
# never own a partition at the same time.
_SESSION_SAFE_S: Final = SESSION_TIMEOUT_MS / 1000 - 0.5
_TURN_S: Final = 0.1
_HEARTBEAT_TIMEOUT_S: Final = 2.0
# How the broker answers the heartbeat of a member: without an error, or that members join.
_MEMBER_CODES: Final = (errors.NoError.errno, errors.RebalanceInProgressError.errno)
_JOIN_TIMEOUT_MS: Final = 1000
_METADATA_MAX_AGE_MS: Final = 5000
_METADATA_RETRY_MS: Final = 400
_API_VERSION: Final = (3, 7)

_log = structlog.get_logger(__name__)


class JoinedMember(Protocol):
    """A member of the group, with the methods that `Membership` calls."""

    @property
    def last_contact_at(self) -> float:
        """When the member last had contact with the group (monotonic clock, in seconds)."""

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics by their full names; called on the I/O thread."""


class Membership:
    """An `Ownership` that runs on the asyncio loop. Its topic names are without the namespace."""

    def __init__(self, io: IoThread, prefix: str) -> None:
        self._io = io
        self._prefix = prefix
        # Events for the reader. None means that the member left, and no more events will come.
        self._events: asyncio.Queue[OwnershipEvent | None] = asyncio.Queue()
        # The partitions that this process owns according to all events that were read so far.
        self._held: set[Partition] = set()
        self.member: JoinedMember | None = None

    @property
    def is_sure(self) -> bool:
        """Whether it is certain that no other member owns this member's partitions.

        If a process did not run for a long time, the group may have removed the member. The process
        learns this only later.
        """
        if self.member is None or not self._held:
            return True
        return time.monotonic() - self.member.last_contact_at <= _SESSION_SAFE_S

    def subscribe(self, topics: Collection[str]) -> None:
        """Take part in the distribution of these topics' partitions, and of no other topics."""
        names = frozenset(self._prefix + topic for topic in topics)
        if self.member is not None:
            member = self.member
            self._io.post(lambda: member.subscribe(names))

    async def events(self) -> AsyncIterator[OwnershipEvent]:
        """Yield assignments and revocations in order.

        The events end when the member has left the group.
        """
        while (event := await self._events.get()) is not None:
            if isinstance(event, Assigned):
                self._held |= event.partitions
            yield event
            if isinstance(event, Lost):
                self._held -= event.partitions
        self.end()

    def end(self) -> None:
        """End the events, because the member left."""
        self._events.put_nowait(None)

    def assigned(self, partitions: Collection[Untyped]) -> None:
        """Report an assignment to the reader of the events. Call this only on the I/O thread."""
        self._put(Assigned(self._ours(partitions)))

    def revoked(self, partitions: Collection[Untyped], released: Callable[[], None]) -> None:
        """Report a revocation to the reader of the events.

        Call this only on the I/O thread. `released` is called there, too, when the partitions are
        released.
        """
        ours = self._ours(partitions)

        def release() -> None:
            self._held -= ours
            self._io.post(released)

        self._put(Revoked(ours, ReleaseOnce(release)))

    def lost(self, partitions: Collection[Untyped]) -> None:
        """Report lost partitions to the reader of the events. Call this only on the I/O thread."""
        self._put(Lost(self._ours(partitions)))

    def _put(self, event: OwnershipEvent) -> None:
        self._io.hand_over(self._events.put_nowait, event)

    def _ours(self, partitions: Collection[Untyped]) -> frozenset[Partition]:
        cut = len(self._prefix)
        return frozenset(Partition(topic[cut:], index) for topic, index in partitions)


class KafkaMember:
    """One member of the group. Everything here runs on kafka-python's I/O thread."""

    def __init__(
        self,
        io: IoThread,
        client: Client,
        control: Client,
        *,
        group: str,
        name: str,
        capacity: float,
        revoke_timeout: timedelta,
        membership: Membership,
    ) -> None:
        """Create the member. `leave` closes `client`; `control` sends the request to leave."""
        self._io = io
        self._client = client
        self._control = control
        self._group = group
        self._topics: frozenset[str] = frozenset()
        self._closing = False
        self._heard = -math.inf
        self._wakeup = WakeupNotifier(io.net)
        self._subscription = SubscriptionState()
        self._listener = _Listener(client, membership, revoke_timeout)
        cluster = client.manager.cluster
        cluster.config["retry_backoff_ms"] = _METADATA_RETRY_MS
        cluster.config["metadata_max_age_ms"] = _METADATA_MAX_AGE_MS
        self._coordinator = GroupCoordinator(
            KafkaNetClient(net=io.net, manager=client.manager),
            self._subscription,
            assignors=[HashRingAssignor(name, capacity, self._owned)],
            group_id=group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            # Set how long a rebalance waits for a member. The time must be long enough for the
            # member to finish its work for revoked partitions.
            max_poll_interval_ms=int(revoke_timeout.total_seconds() * 1000) + 10_000,
            request_timeout_ms=SESSION_TIMEOUT_MS - 1000,
            enable_auto_commit=False,
            api_version=_API_VERSION,
        )
        io.net.call_soon(self._run)
        io.net.call_soon(self._heartbeats_beside_joins)
        io.net.call_soon(self._watch_joins)

    @property
    def last_contact_at(self) -> float:
        """When this member last had contact with the group.

        Callable from any thread. A heartbeat counts from the time when it was sent, because its
        response may be read much later.
        """
        heartbeat = self._coordinator.heartbeat
        sent = heartbeat.last_send
        answered = sent if heartbeat.last_receive >= sent else -math.inf
        heard: float = max(self._heard, answered, self._coordinator.assigned_at)
        return heard

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics. A rebalance with these topics starts now."""
        self._topics = topics
        self._wakeup.notify()

    async def leave(self) -> None:
        """Stop, and notify the group. Otherwise the group would wait for the session timeout."""
        self._closing = True
        self._wakeup.notify()
        self._listener.stop()
        member_id = self._coordinator.group_metadata().member_id
        self._coordinator._close_heartbeat()  # noqa: SLF001 - `close` would block this thread
        self._client.close()
        if member_id:
            await self._leave_group(member_id)

    async def _leave_group(self, member_id: str) -> None:
        # Send the request to leave on another connection. The member's own connection may be busy
        # with a request to join, whose response waits for other members.
        identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)
        request = LeaveGroupRequest(
            group_id=self._group, member_id=member_id, members=[identity], max_version=4
        )
        try:
            nodes = await self._control.coordinators([self._group])
            if self._group in nodes:
                await self._control.send(nodes[self._group], request)
        except FAILED_TRY as error:
            _log.info("kafka_leave_failed", group=self._group, error=str(error))

    def _owned(self) -> Collection[Partition]:
        return [Partition(*each) for each in self._subscription.assigned_partitions()]

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self._turn()
            except Exception as error:  # noqa: BLE001 - the member joins again
                self._coordinator.request_rejoin()
                if not self._closing:
                    _log.warning("kafka_membership_interrupted", error=repr(error))
            await self._wakeup(_TURN_S)

    async def _watch_joins(self) -> None:
        """Check during a join whether the member's session is over.

        The check in each turn is not enough. During a join, a turn takes up to a second, and the
        session could end in the middle of it.
        """
        while not self._closing:
            if self._coordinator.rebalance_in_progress() and self._session_is_over():
                await self._lose()
            await self._io.net.sleep(_TURN_S)

    async def _heartbeats_beside_joins(self) -> None:
        """Send heartbeats while a join waits for other members.

        kafka-python sends no heartbeats during this time.
        """
        while not self._closing:
            if self._coordinator.rebalance_in_progress():
                try:
                    await self._heartbeat_beside_join()
                except Exception as error:  # noqa: BLE001 - the next heartbeat is sent after any error
                    _log.debug("kafka_heartbeat_failed", group=self._group, error=repr(error))
                    # Another broker may be the coordinator by now.
                    self._control.forget_coordinators([self._group])
            await self._io.net.sleep(HEARTBEAT_MS / 1000)

    async def _heartbeat_beside_join(self) -> None:
        # Do not send the heartbeat on the member's connection. There it would have to wait until
        # the request to join is answered.
        member = self._coordinator._generation  # noqa: SLF001 - to notice that there is a new one
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=None,
        )
        sent_at = time.monotonic()
        node = (await self._control.coordinators([self._group]))[self._group]
        answer = await self._control.send(node, request, timeout=_HEARTBEAT_TIMEOUT_S)
        if answer.error_code in _MEMBER_CODES:
            self._heard = max(self._heard, sent_at)
        elif answer.error_code in STALE_COORDINATOR_CODES:
            self._control.forget_coordinators([self._group])
        elif answer.error_code == errors.UnknownMemberIdError.errno and (
            # Ignore an answer to an older generation: this member has a new one since.
            member is self._coordinator._generation  # noqa: SLF001 - as above
        ):
            # The group has removed this member, and others may own its partitions already.
            await self._lose()

    async def _turn(self) -> None:
        self._apply_topics()
        if self._subscription.subscription is None:
            return
        self._coordinator.poll_heartbeat()
        if self._session_is_over():
            await self._lose()
        if self._coordinator.need_rejoin():
            # A join may take longer than one turn. kafka-python forgets some reasons for a join,
            # for example new topics, as soon as it has sent the request to join. Without this call,
            # `need_rejoin` would be false in the next turn. Nobody would read the response, and the
            # member would stop working.
            self._coordinator.request_rejoin()
            await self._coordinator.ensure_active_group_async(timeout_ms=_JOIN_TIMEOUT_MS)

    def _apply_topics(self) -> None:
        subscription = self._subscription
        if subscription.subscription == (self._topics or None):
            return
        if subscription.subscription is None:
            subscription.subscribe(topics=sorted(self._topics), listener=self._listener)
        elif subscription.subscription != self._topics:
            subscription.change_subscription(sorted(self._topics))
        else:
            return
        cluster = self._client.manager.cluster
        # Replace all topics of the cluster object. Its method `set_topics` only adds topics, so
        # deleted topics would be looked up forever.
        cluster._topics = set(subscription.group_subscription())  # noqa: SLF001 - nothing public replaces topics
        cluster.request_update()

    def _session_is_over(self) -> bool:
        self._heard = self.last_contact_at
        return time.monotonic() - self._heard > _SESSION_SAFE_S

    async def _lose(self) -> None:
        """Report that this member has lost all its partitions, and leave its generation.

        Other members may own the partitions by now. If the member has no partitions, do nothing. It
        may be in its first join, and leaving the generation would start that join again.
        """
        if lost := set(self._subscription.assigned_partitions()):
            self._coordinator.reset_generation()
            self._subscription.assign_from_subscribed([])
            await self._listener.on_partitions_lost(lost)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka has no types
    """Passes on which partitions the group assigns to this member and takes from it.

    Heartbeats continue while a revocation waits until the partitions are released.
    """

    def __init__(self, client: Client, membership: Membership, revoke_timeout: timedelta) -> None:
        self._client = client
        self._membership = membership
        self._timeout_ms = int(revoke_timeout.total_seconds() * 1000)
        self._stopped = False
        self._waiting: Future | None = None

    async def on_partitions_revoked(self, revoked: Collection[Untyped]) -> None:
        """Wait until the partitions are released, or until the time limit for this is over."""
        if self._stopped:
            return
        released = self._waiting = Future()
        self._membership.revoked(revoked, lambda: _complete(released))
        try:
            await self._client.manager.wait_for(released, self._timeout_ms)
        except errors.KafkaTimeoutError:
            _log.warning("kafka_release_timed_out", partitions=len(revoked))

    async def on_partitions_assigned(self, assigned: Collection[Untyped]) -> None:
        """Report the partitions that this member owns now in addition."""
        if not self._stopped:
            self._membership.assigned(assigned)

    async def on_partitions_lost(self, lost: Collection[Untyped]) -> None:
        """Report the lost partitions."""
        if not self._stopped:
            self._membership.lost(lost)

    def stop(self) -> None:
        """Pass on no more events, and stop waiting for the release of partitions."""
        self._stopped = True
        if self._waiting is not None:
            _complete(self._waiting)


def _complete(future: Future) -> None:
    if not future.is_done:
        future.success(None)
