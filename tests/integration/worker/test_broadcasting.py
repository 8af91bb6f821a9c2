"""A worker whose subscription has several addresses, each of which is to get every message."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address
from typing import NamedTuple

from app.domain.catalogue.subscription import (
    DeliveryPolicy,
    EndpointMode,
    OnExhausted,
    Subscription,
)
from app.domain.catalogue.topic import Topic
from app.domain.network.egress import Address
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import World, delivered
from workers.consumer.endpoint import Endpoint
from workers.delivery.sender import Sender
from workers.transport.dialer import ConnectionOrigin
from workers.transport.transport import DeliveryTransport

HOST = "replicas.test"
EAGER = DeliveryPolicy(rate=100_000, adaptive_rate=False, message_backoff=timedelta())


class NamedTransport(DeliveryTransport):
    """A transport that knows what one name stands for."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(egress=LOOPBACK)
        self._addresses = tuple(ip_address(each) for each in addresses)

    async def addresses(self, origin: ConnectionOrigin, *, total_s: float) -> Sequence[Address]:
        del total_s
        assert origin.host == HOST
        return self._addresses


class NamedSender(NamedTuple):
    """A sender whose requests go by that transport."""

    sender: Sender
    transport: NamedTransport

    def destination(self, subscription: Subscription) -> Endpoint:
        return self.sender.destination(subscription, transport=self.transport)


class Replicas(NamedTuple):
    """Two subscribers at one port of two addresses, and a world where a name stands for both."""

    world: World
    topic: Topic
    first: Subscriber
    second: Subscriber
    subscription: Subscription

    async def publish(self, count: int) -> None:
        await self.world.publish(self.topic, *(b"%d" % n for n in range(count)))

    async def until_delivered(self, count: int) -> None:
        await self.world.plane.until(lambda: delivered(self.world, self.subscription.id) >= count)


@asynccontextmanager
async def replicas(policy: DeliveryPolicy = EAGER) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Subscriber(host="127.0.0.1"))
        second = await stack.enter_async_context(Subscriber(host="127.0.0.2", port=first.port))
        sender = await stack.enter_async_context(Sender(egress=LOOPBACK))
        transport = NamedTransport(["127.0.0.1", "127.0.0.2"])
        stack.push_async_callback(transport.aclose)
        world = World(sender=NamedSender(sender, transport))
        topic = await world.topic()
        made = await world.subscribe(topic, endpoint=f"http://{HOST}:{first.port}/")
        wanted = replace(made, mode=EndpointMode.BROADCAST, policy=policy)
        subscription = world.plane.put(wanted)
        yield Replicas(world, topic, first, second, subscription)


async def test_every_address_gets_every_message_which_then_counts_once() -> None:
    async with replicas() as r, r.world.worker():
        await r.world.plane.until_applied()
        await r.publish(20)
        await r.until_delivered(20)
        assert delivered(r.world, r.subscription.id) == 20
        assert Counter(r.first.message_ids) == Counter(r.second.message_ids)
        assert len(set(r.first.message_ids)) == len(r.first.message_ids) == 20
        hosts = {each.headers["host"] for each in r.first.received + r.second.received}
        assert hosts == {f"{HOST}:{r.first.port}"}


async def test_who_has_a_message_does_not_get_it_again_while_others_refuse_it() -> None:
    def twice_busy(received: Received) -> Reply:
        return Reply(status=503 if received.retry_count < 2 else 200)

    async with replicas() as r, r.world.worker():
        r.second.reply = twice_busy
        await r.world.plane.until_applied()
        await r.publish(10)
        await r.until_delivered(10)
        assert len(r.first.received) == 10
        assert len(r.second.received) == 30
        assert delivered(r.world, r.subscription.id) == 10


async def test_messages_that_are_given_up_push_no_others_out_of_memory() -> None:
    def busy_at_first(received: Received) -> Reply:
        return Reply(status=503 if received.retry_count == 0 else 200)

    few = replace(
        EAGER,
        message_backoff=timedelta(milliseconds=300),
        retry_buffer_max=2,
        in_flight_max=1,
        on_exhausted=OnExhausted.DISCARD,
    )
    async with replicas(few) as r, r.world.worker():
        r.second.reply = busy_at_first
        await r.world.plane.until_applied()
        await r.publish(12)
        await r.until_delivered(2)
        assert len(r.first.received) == 12


async def test_a_message_that_is_given_up_says_which_address_failed() -> None:
    async with replicas(replace(EAGER, max_retries=1)) as r, r.world.worker():
        r.second.reply = Reply(status=503)
        await r.world.plane.until_applied()
        await r.publish(1)
        await r.world.plane.until(lambda: len(r.world.plane.undelivered) == 1)
    [found] = r.world.plane.undelivered
    where = "(at 127.0.0.2; 1 of 2 addresses have failed)"
    assert found.last_failure == f"Message sending failed with status code:503 {where}"


async def test_after_a_crash_all_addresses_get_what_was_not_delivered_to_all() -> None:
    async with replicas() as r:
        r.second.reply = Reply(status=503)
        async with r.world.doomed_worker():
            await r.world.plane.until_applied()
            await r.publish(1)
            await r.second.wait_for(3)
        assert len(r.first.received) == 1
        r.second.reply = Reply()
        async with r.world.worker("w2"):
            await r.until_delivered(1)
        assert [each.retry_count for each in r.first.received] == [0, 0]


async def test_after_a_suspension_all_addresses_get_what_was_not_delivered_to_all() -> None:
    async with replicas() as r, r.world.worker():

        def busy_until_begun_anew(_received: Received) -> Reply:
            # An attempt may still be under way when the suspension is applied.
            return Reply(status=503 if len(r.first.received) < 2 else 200)

        r.second.reply = busy_until_begun_anew
        await r.world.plane.until_applied()
        await r.publish(1)
        await r.second.wait_for(2)
        r.world.suspend(r.subscription)
        await r.world.plane.until_applied()
        r.world.resume(r.subscription)
        await r.until_delivered(1)
        assert len(r.first.received) == 2


async def test_another_setting_changes_nothing_in_who_has_a_message() -> None:
    async with replicas() as r, r.world.worker():
        r.second.reply = Reply(status=503)
        await r.world.plane.until_applied()
        await r.publish(1)
        await r.second.wait_for(2)
        r.world.plane.put(replace(r.subscription, description="another"))
        await r.world.plane.until_applied()
        r.second.reply = Reply()
        await r.until_delivered(1)
        assert len(r.first.received) == 1
