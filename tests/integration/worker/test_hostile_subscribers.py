"""A worker between a subscriber that misbehaves and one that does not: each gets its due.

The one that misbehaves is reached in the clear, and by TLS.
"""

from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

import psutil
import pytest
from h2.errors import ErrorCodes

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import TTL_ELAPSED
from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import (
    MEGABYTE,
    OK,
    Act,
    Hostile,
    drips,
    floods,
    hangs,
    never_accepting,
    repeats,
    resets,
    says,
)
from tests.fakes.http2_server import IDLE_FRAMES, Scripted, flooding, scripted
from tests.fakes.subscriber import Subscriber
from tests.fakes.worker import World, delivered
from tests.integration.conftest import Wire
from workers.delivery.sender import Sender

MESSAGES = 20
# What twenty answers of 50 MB may add to a process that reads 64 KiB of each.
MEMORY_MAX = 64 * MEGABYTE

FAILING = {
    "hangs": hangs,
    "hangs in the head": says(b"HTTP/1.1 200 OK\r\n"),
    "hangs after the headers": says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    "drips": drips(OK, interval_s=1.0),
    "closes in the body": says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour", close=True),
    "garbage": says(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "continues for ever": repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "redirects": says(
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", close=True
    ),
    "resets": resets,
}
DELIVERING = {
    "two answers to one request": says(OK + OK),
    "more than it said": says(OK + b", and more"),
    "50 MB": floods(50 * MEGABYTE),
}


async def run(
    act: Act, world: World, wire: Wire, *, within: timedelta = timedelta(milliseconds=150)
) -> tuple[Hostile, Subscription]:
    """Both subscribers get the messages; returns when both are done with them.

    The one that misbehaves has to answer `within` that time.
    """
    async with AsyncExitStack() as stack:
        hostile = await stack.enter_async_context(Hostile(act, tls=wire.server))
        healthy = await stack.enter_async_context(Subscriber())
        topic = await world.topic()
        victim = await world.subscribe(topic, "healthy", endpoint=healthy.url)
        culprit = await world.subscribe(
            topic,
            "hostile",
            endpoint=hostile.url,
            request_timeout=within,
            message_ttl=3 * within,
            message_backoff=timedelta(milliseconds=100),
        )
        async with world.worker():
            await world.plane.until_applied()
            await world.publish(topic, *(b"%d" % number for number in range(MESSAGES)))
            await healthy.wait_for(MESSAGES)
            await world.plane.until(lambda: finished(world, culprit) == MESSAGES)
            # Nothing is left open to it.
            await hostile.left()
        assert Counter(r.body for r in healthy.received).most_common(1)[0][1] == 1
        assert delivered(world, victim.id) == MESSAGES
    return hostile, culprit


def finished(world: World, subscription: Subscription) -> int:
    return delivered(world, subscription.id) + len(world.plane.undelivered)


def identity(request: bytes) -> tuple[bytes, ...]:
    """The message of a request, and which attempt it is."""
    names = (b"hermes-message-id:", b"hermes-retry-count:")
    return tuple(line for line in request.splitlines() if line.lower().startswith(names))


@pytest.mark.parametrize("act", FAILING.values(), ids=FAILING)
async def test_what_fails_is_recorded_with_as_many_attempts_as_requests_came(
    act: Act, wire: Wire
) -> None:
    async with Sender(egress=LOOPBACK, ca_file=wire.ca_file) as sender:
        world = World(sender=sender)
        hostile, _ = await run(act, world, wire)
    assert len(world.plane.undelivered) == MESSAGES
    assert {row.reason for row in world.plane.undelivered} == {TTL_ELAPSED}
    assert all(row.status or row.last_failure for row in world.plane.undelivered)
    # An attempt on a busy machine may end before its request is out; none has two.
    requests = [identity(request) for request in hostile.requests]
    assert len(set(requests)) == len(requests)
    assert len(requests) <= sum(row.attempts for row in world.plane.undelivered)


@pytest.mark.parametrize("act", DELIVERING.values(), ids=DELIVERING)
async def test_what_was_answered_is_delivered_once_however_it_goes_on(act: Act, wire: Wire) -> None:
    before = psutil.Process().memory_info().rss
    async with Sender(egress=LOOPBACK, ca_file=wire.ca_file) as sender:
        world = World(sender=sender)
        # Twenty handshakes and floods at once take a busy machine a while.
        hostile, culprit = await run(act, world, wire, within=timedelta(seconds=20))
    assert psutil.Process().memory_info().rss - before < MEMORY_MAX
    assert delivered(world, culprit.id) == MESSAGES == len(hostile.requests)


async def test_one_that_takes_up_no_connection_delays_nobody() -> None:
    async with (
        never_accepting() as endpoint,
        Subscriber() as healthy,
        Sender(egress=LOOPBACK) as sender,
    ):
        world = World(sender=sender)
        topic = await world.topic()
        await world.subscribe(topic, "healthy", endpoint=healthy.url)
        await world.subscribe(
            topic,
            "hostile",
            endpoint=endpoint,
            request_timeout=timedelta(milliseconds=150),
            message_ttl=timedelta(milliseconds=200),
        )
        async with world.worker():
            await world.plane.until_applied()
            await world.publish(topic, *(b"%d" % number for number in range(MESSAGES)))
            await healthy.wait_for(MESSAGES)
            await world.plane.until(lambda: len(world.plane.undelivered) == MESSAGES)


@pytest.mark.parametrize("part", IDLE_FRAMES.values(), ids=IDLE_FRAMES)
async def test_one_that_floods_by_http2_delays_nobody(part: bytes, authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    goodbyes: list[int | None] = []

    async def floods_by_http2(server: Scripted) -> None:
        try:
            await flooding(part, 64_000)(server)
        finally:
            goodbyes.append(server.goodbye)

    async with (
        Hostile(scripted(floods_by_http2), reading=False, tls=context) as hostile,
        Subscriber() as healthy,
        Sender(egress=LOOPBACK, ca_file=authority.ca_file) as sender,
    ):
        world = World(sender=sender)
        topic = await world.topic()
        await world.subscribe(topic, "healthy", endpoint=healthy.url)
        await world.subscribe(
            topic,
            "hostile",
            endpoint=hostile.url,
            http2=True,
            message_ttl=timedelta(milliseconds=200),
        )
        async with world.worker():
            await world.plane.until_applied()
            await world.publish(topic, *(b"%d" % number for number in range(MESSAGES)))
            await healthy.wait_for(MESSAGES)
            await world.plane.until(lambda: len(world.plane.undelivered) == MESSAGES)
            await hostile.left()
    assert set(goodbyes) == {ErrorCodes.ENHANCE_YOUR_CALM}
