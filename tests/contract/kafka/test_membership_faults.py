"""A member of the group whose requests or connections fail."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors
from kafka.future import Future

from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.kafka.ownership import SESSION_TIMEOUT_MS, KafkaMember, Membership
from tests.contract.logs import TOPIC, Holder, created, holding
from tests.servers.kafka import SharedBroker

Answer = Callable[[], Future]
NEW = "shop.new"
# Handshakes that fail, before one succeeds again.
FAILURES = 5


def member_of(holder: Holder) -> KafkaMember:
    """The member behind a holder of partitions."""
    membership = holder.ownership
    assert isinstance(membership, Membership)
    assert isinstance(membership.member, KafkaMember)
    return membership.member


def connections_of(holder: Holder) -> Any:  # noqa: ANN401 - kafka has no types
    """The connections of the member to its brokers."""
    return member_of(holder)._client.manager  # noqa: SLF001 - only tests break them


async def leave_group(member: KafkaMember) -> None:
    """Tell the group that the member leaves, which it does not know."""
    name = member._coordinator.group_metadata().member_id  # noqa: SLF001 - only tests do this
    await member._leave_group(name)  # noqa: SLF001 - the same


def answer_instead(holder: Holder, kind: str, answer: Callable[[Answer], Future]) -> None:
    """Let `answer` answer the member's requests of one kind. Its argument sends the request."""
    manager = connections_of(holder)
    send = manager.send

    def answered(request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Future:  # noqa: ANN401 - kafka has no types
        def really() -> Future:
            return send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)

        return answer(really) if type(request).__name__ == kind else really()

    manager.send = answered


async def test_a_member_that_reaches_other_brokers_but_no_coordinator_loses_its_partitions(
    log: MessageLog,
) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))

        def unreachable(_: Answer) -> Future:
            return Future().failure(errors.KafkaConnectionError("unreachable"))

        for kind in ("HeartbeatRequest", "JoinGroupRequest", "SyncGroupRequest"):
            answer_instead(holder, kind, unreachable)
        await holder.until(lambda h: not h.owned)


async def test_a_member_that_the_group_removes_while_it_joins_has_lost_its_partitions(
    log: MessageLog,
) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        member = member_of(holder)

        def removed_first(really: Answer) -> Future:
            async def answer() -> Any:  # noqa: ANN401 - as above
                await leave_group(member)
                return await really()

            return connections_of(holder).call_soon(answer)

        more = await created(log, NEW)
        answer_instead(holder, "JoinGroupRequest", once(removed_first))
        holder.subscribe([TOPIC, NEW])
        await holder.until(lambda h: h.owned == {*partitions, *more})
        assert holder.lost == set(partitions)


@pytest.mark.long
async def test_a_member_whose_request_to_join_is_lost_loses_its_partitions_when_it_is_removed(
    log: MessageLog, each_kafka: SharedBroker, kafka_namespace: str
) -> None:
    partitions = await created(log, partitions=8)
    async with (
        kafka_log(each_kafka.bootstrap, namespace=kafka_namespace) as other,
        holding(log, "a", revoke_timeout=0.5) as holder,
    ):
        await holder.until(lambda h: h.owned == set(partitions))
        member = member_of(holder)
        answer_instead(holder, "JoinGroupRequest", once(lambda _: Future()))
        async with holding(other, "b", revoke_timeout=0.5) as heir:
            await heir.until(lambda h: bool(h.owned))
            await holder.until(lambda h: bool(h.lost))
            # Long before the end of the session: the heartbeat beside the join was refused.
            assert time.monotonic() - member.last_contact_at < SESSION_TIMEOUT_MS / 2000


async def test_a_member_takes_up_new_topics_after_handshakes_failed(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        manager, failed = connections_of(holder), asyncio.Semaphore(0)
        loop, transport = asyncio.get_running_loop(), manager._transport  # noqa: SLF001 - the same

        async def broken(*_: object) -> None:
            loop.call_soon_threadsafe(failed.release)
            raise ssl.SSLEOFError("EOF occurred in violation of protocol")

        async def dropped() -> None:
            for connection in list(manager._conns.values()):  # noqa: SLF001 - the same
                connection.close(errors.KafkaConnectionError("the broker restarts"))

        manager._transport = broken  # noqa: SLF001 - the same
        await asyncio.to_thread(manager.run, dropped)
        for _ in range(FAILURES):
            await failed.acquire()
        manager._transport = transport  # noqa: SLF001 - the same
        more = await created(log, NEW)
        holder.subscribe([TOPIC, NEW])
        await holder.until(lambda h: h.owned == {*partitions, *more})


async def test_a_topic_that_may_not_be_described_keeps_no_other_topic_from_being_assigned(
    log: MessageLog,
) -> None:
    partitions = await created(log)
    async with holding(log, "a") as holder:
        cluster = connections_of(holder).cluster
        update = cluster.update_metadata

        def denied(metadata: Any) -> Any:  # noqa: ANN401 - as above
            for topic in metadata.topics:
                if topic.name.endswith("denied"):
                    topic.error_code, topic.partitions = 29, []
            return update(metadata)

        cluster.update_metadata = denied
        await holder.until(lambda h: h.owned == set(partitions))
        holder.subscribe([TOPIC, "shop.denied"])
        more = await created(log, NEW)
        holder.subscribe([TOPIC, "shop.denied", NEW])
        await holder.until(lambda h: h.owned == {*partitions, *more})


def once(answer: Callable[[Answer], Future]) -> Callable[[Answer], Future]:
    """Answer the first request so, and send all others."""
    left = [answer]
    return lambda really: left.pop()(really) if left else really()
