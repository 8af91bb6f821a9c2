"""A worker between a provider of tokens and subscribers that ask for them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import psutil
import pytest

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.oauth import OAuthProvider
from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import TTL_ELAPSED
from app.domain.status import RateMode
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import MEGABYTE, Act, Hostile, floods, hangs, resets, says
from tests.fakes.oauth import POLICY, Login, TokenRequest, a_provider
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import PATIENCE_S, World, delivered
from workers.delivery.sender import Sender

HERD = 1_000


class Shop:
    """A topic, subscribers that ask for tokens, and a worker between them."""

    def __init__(self, world: World, topic: Topic) -> None:
        self.world = world
        self.topic = topic
        self._numbers = count()

    async def subscribe(
        self,
        endpoint: str,
        provider: OAuthProvider,
        *,
        name: str = "s",
        **policy: Any,  # noqa: ANN401 - fields of a policy
    ) -> Subscription:
        plain = await self.world.subscribe(self.topic, name, endpoint=endpoint, **policy)
        asking = replace(plain, oauth=POLICY, oauth_provider=provider)
        return await self.change(asking)

    async def change(self, subscription: Subscription) -> Subscription:
        changed = self.world.plane.put(subscription)
        await self.world.plane.until_applied()
        return changed

    async def publish(self, messages: int) -> None:
        bodies = [b"%d" % next(self._numbers) for _ in range(messages)]
        await self.world.publish(self.topic, *bodies)

    async def done(self, subscription: Subscription, messages: int) -> None:
        def finished() -> int:
            lost = [r for r in self.world.plane.undelivered if r.subscription == subscription.name]
            return delivered(self.world, subscription.id) + len(lost)

        await self.world.plane.until(lambda: finished() == messages)


@asynccontextmanager
async def shop(partitions: int = 2) -> AsyncIterator[Shop]:
    async with Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic(partitions=partitions)
        async with world.worker():
            yield Shop(world, topic)


def most_in_a_second(received: list[Received]) -> int:
    """Requests in any second, less what a new connection may delay them."""
    times = sorted(each.at for each in received)
    return max(sum(1 for at in times if start <= at < start + 0.95) for start in times)


async def test_a_thousand_messages_need_one_token() -> None:
    async with Login(delay=0.05) as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        subscription = await at.subscribe(subscriber.url, login.provider())
        await at.publish(HERD)
        await at.done(subscription, HERD)
    assert len(login.requests) == 1
    assert len(subscriber.received) == HERD
    assert {each.headers["authorization"] for each in subscriber.received} == {"Bearer token-1"}
    assert {each.retry_count for each in subscriber.received} == {0}


async def test_subscriptions_that_ask_for_the_same_share_a_token() -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        names = ("a", "b", "c")
        made = [await at.subscribe(subscriber.url, login.provider(), name=name) for name in names]
        await at.publish(10)
        for each in made:
            await at.done(each, 10)
    assert len(login.requests) == 1


async def test_tokens_that_end_under_load_are_renewed_before() -> None:
    async with (
        Login(expires_in=1, leeway=1) as login,
        Subscriber(login.guarded()) as subscriber,
        shop() as at,
    ):
        subscription = await at.subscribe(subscriber.url, login.provider(), rate=100)
        await at.publish(300)
        await at.done(subscription, 300)
    assert [each for each in subscriber.received if not login.accepts(each)] == []
    # Each token is used for most of its life.
    assert len(login.requests) >= 3
    assert all(after.at - before.at > 0.5 for before, after in pairwise(login.requests))
    assert len(subscriber.received) == 300


async def test_no_token_costs_a_message_while_the_provider_is_down() -> None:
    def down(_: TokenRequest) -> Reply | None:
        return Reply(status=503) if len(login.requests) < 5 else None

    async with Login(reply=down) as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        subscription = await at.subscribe(subscriber.url, login.provider(), adaptive_rate=True)
        await at.publish(200)
        await subscriber.wait_for(1)
        output = at.world.plane.loads[subscription.id].output
        await at.done(subscription, 200)
    assert len(login.requests) == 5
    pauses = [after.at - before.at for before, after in pairwise(login.requests)]
    assert all(
        pause > 0.9 * least for pause, least in zip(pauses, (0.2, 0.4, 0.8, 1.6), strict=True)
    )
    assert delivered(at.world, subscription.id) == 200
    # The subscriber is innocent: it is not taken for one that is down.
    assert output.mode is RateMode.NORMAL


async def test_a_revoked_token_is_replaced_once_and_no_message_is_lost() -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        subscription = await at.subscribe(subscriber.url, login.provider(), in_flight_max=50)
        await at.publish(10)
        await at.done(subscription, 10)
        login.revoke()
        await at.publish(200)
        await at.done(subscription, 210)
    assert len(login.requests) == 2
    assert delivered(at.world, subscription.id) == 210
    good = Counter(each.body for each in subscriber.received if login.accepts(each))
    taken = Counter(
        each.body
        for each in subscriber.received
        if each.headers["authorization"] in {"Bearer token-1", "Bearer token-2"}
    )
    assert len(good) == 200
    assert max(taken.values()) == 2


async def test_order_is_kept_over_a_revoked_token() -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber, shop(1) as at:
        plain = await at.subscribe(subscriber.url, login.provider())
        subscription = await at.change(replace(plain, ordering=Ordering.PARTITION))
        await at.publish(5)
        await at.done(subscription, 5)
        login.revoke()
        await at.publish(5)
        await at.done(subscription, 10)
    arrived = [int(each.body) for each in subscriber.received if login.accepts(each)]
    assert arrived == [5, 6, 7, 8, 9]


async def test_who_refuses_every_token_has_its_messages_judged_and_disturbs_nobody() -> None:
    async with (
        Login() as login,
        Subscriber(Reply(status=401)) as refusing,
        Subscriber(login.guarded()) as healthy,
        shop() as at,
    ):
        culprit = await at.subscribe(refusing.url, login.provider(), name="culprit")
        victim = await at.subscribe(healthy.url, login.provider(), name="victim")
        await at.publish(100)
        await at.done(culprit, 100)
        await at.done(victim, 100)
    assert {row.reason for row in at.world.plane.undelivered} == {
        "Message sending failed with status code:401"
    }
    assert {row.subscription for row in at.world.plane.undelivered} == {"culprit"}
    assert max(row.attempts for row in at.world.plane.undelivered) <= 3
    assert len(login.requests) <= 4
    assert len(healthy.received) == 100


async def test_a_401_that_is_retryable_is_retried_with_few_tokens() -> None:
    refusals = 8

    def reply(_: Received) -> Reply:
        return Reply(status=401 if len(subscriber.received) <= refusals else 200)

    async with Login() as login, Subscriber(reply) as subscriber, shop() as at:
        plain = await at.subscribe(subscriber.url, login.provider(), message_backoff=timedelta())
        subscription = await at.change(replace(plain, retryable_codes=frozenset({401})))
        await at.publish(1)
        await at.done(subscription, 1)
    assert delivered(at.world, subscription.id) == 1
    assert len(subscriber.received) == refusals + 1
    assert len(login.requests) <= 3


async def test_a_changed_provider_issues_the_next_token() -> None:
    async with (
        Login() as before,
        Login() as after,
        Subscriber(after.guarded()) as subscriber,
        shop() as at,
    ):
        subscription = await at.subscribe(subscriber.url, before.provider())
        wanted = after.provider(client_secret="another")
        subscription = await at.change(replace(subscription, oauth_provider=wanted))
        await at.publish(10)
        await at.done(subscription, 10)
    assert delivered(at.world, subscription.id) == 10
    assert [each.form["client_secret"] for each in after.requests] == ["another"]


@pytest.mark.parametrize(
    ("uses", "why"),
    [
        ({"endpoint_hosts": ("elsewhere.test",)}, "may go to: elsewhere.test"),
        ({"scopes": ("orders.read",)}, "must be of those of OAuth provider login: orders.read"),
    ],
)
async def test_a_provider_that_is_for_something_else_by_now_is_asked_for_no_token(
    uses: dict[str, tuple[str, ...]], why: str
) -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        mine = {"endpoint_hosts": ("127.0.0.1", "*.shop.test"), "scopes": (POLICY.scope,)}
        subscription = await at.subscribe(subscriber.url, login.provider(**mine))
        await at.publish(1)
        await at.done(subscription, 1)
        asked, got = len(login.requests), len(subscriber.received)
        narrowed = login.provider(**(mine | uses))
        subscription = await at.change(replace(subscription, oauth_provider=narrowed))
        await at.publish(1)
        await at.world.plane.until(lambda: said(at, subscription, why))
    assert (asked, got) == (1, 1)
    assert (len(login.requests), len(subscriber.received)) == (asked, got)


async def test_without_its_policy_a_subscription_needs_no_token() -> None:
    async with Login() as login, Subscriber() as subscriber, shop() as at:
        subscription = await at.subscribe(subscriber.url, login.provider())
        subscription = await at.change(replace(subscription, oauth=None))
        await at.publish(3)
        await at.done(subscription, 3)
    assert all("authorization" not in each.headers for each in subscriber.received)


async def test_a_batch_has_a_token_too() -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        plain = await at.subscribe(
            subscriber.url, login.provider(), batch_time=timedelta(milliseconds=50)
        )
        subscription = await at.change(replace(plain, delivery_type=DeliveryType.BATCH))
        await at.publish(10)
        await at.done(subscription, 10)
    assert delivered(at.world, subscription.id) == 10


async def test_the_rate_holds_in_the_moment_in_which_the_token_comes() -> None:
    async with Login(delay=1.5) as login, Subscriber(login.guarded()) as subscriber, shop() as at:
        subscription = await at.subscribe(subscriber.url, login.provider(), rate=20)
        await at.publish(40)
        await at.done(subscription, 40)
    assert most_in_a_second(subscriber.received) <= 20


PROVIDERS: dict[str, tuple[Act, str]] = {
    "hangs": (hangs, "No complete answer within 150 ms"),
    "resets": (resets, "Connection error"),
    "garbage": (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "Protocol error"),
    "no token": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), "no usable access_token"),
    "a page": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), "not a JSON object"),
    "10 MB": (floods(10 * MEGABYTE), "larger than any with a token"),
    "redirects": (
        says(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
        "it answered 302",
    ),
}


@pytest.mark.parametrize(("act", "reason"), PROVIDERS.values(), ids=PROVIDERS)
async def test_a_provider_that_misbehaves_costs_time_and_says_why(act: Act, reason: str) -> None:
    before = psutil.Process().memory_info().rss
    async with Hostile(act) as hostile, Subscriber() as subscriber, shop() as at:
        # It is only who hangs that is to be in time.
        within = timedelta(milliseconds=150) if act is hangs else timedelta(seconds=20)
        provider = a_provider(hostile.url, request_timeout=within)
        subscription = await at.subscribe(
            subscriber.url, provider, message_ttl=timedelta(seconds=1)
        )
        await at.publish(20)
        await at.world.plane.until(lambda: said(at, subscription, reason))
        await at.done(subscription, 20)
    assert subscriber.received == []
    assert {row.reason for row in at.world.plane.undelivered} == {TTL_ELAPSED}
    assert len(hostile.requests) < 12
    assert psutil.Process().memory_info().rss - before < 32 * MEGABYTE


def said(at: Shop, subscription: Subscription, reason: str) -> bool:
    """Whether the report of the subscription says why nothing leaves."""
    load = at.world.plane.loads.get(subscription.id)
    return load is not None and reason in load.output.reason


async def test_no_token_is_asked_for_at_an_address_that_may_not_be_dialled() -> None:
    async with Subscriber() as subscriber, shop() as at:
        provider = a_provider("http://169.254.169.254/latest/")
        subscription = await at.subscribe(
            subscriber.url, provider, message_ttl=timedelta(seconds=1)
        )
        await at.publish(1)
        await at.world.plane.until(lambda: said(at, subscription, "the local link"))
        await at.done(subscription, 1)
    assert subscriber.received == []


@pytest.mark.parametrize("provider", [None, a_provider(locked="its key is missing")])
async def test_without_a_provider_nothing_is_sent_and_the_report_says_why(
    provider: OAuthProvider | None,
) -> None:
    async with Subscriber() as subscriber, shop() as at:
        plain = await at.world.subscribe(at.topic, endpoint=subscriber.url)
        subscription = await at.change(replace(plain, oauth=POLICY, oauth_provider=provider))
        await at.publish(1)
        why = provider.locked if provider else "it does not exist"
        await at.world.plane.until(lambda: said(at, subscription, why))
    assert subscriber.received == []
    assert at.world.plane.undelivered == []


async def test_a_worker_stops_while_a_provider_hangs() -> None:
    async with (
        Hostile(hangs) as hostile,
        Subscriber() as subscriber,
        asyncio.timeout(PATIENCE_S),
        shop() as at,
    ):
        await at.subscribe(subscriber.url, a_provider(hostile.url))
        await at.publish(20)
        await hostile.visited(1)
    assert subscriber.received == []
    assert at.world.plane.undelivered == []


async def test_what_was_published_while_a_provider_hung_is_delivered_by_the_next_worker() -> None:
    async with Login() as login, Subscriber(login.guarded()) as subscriber:
        hang: list[Callable[[TokenRequest], Reply | None]] = [lambda _: Reply(delay=60)]
        login.reply = lambda request: hang[0](request) if hang else None
        async with Sender(egress=LOOPBACK) as sender:
            world = World(sender=sender)
            topic = await world.topic()
            async with world.doomed_worker("w1"):
                at = Shop(world, topic)
                soon = login.provider(request_timeout=timedelta(seconds=1))
                subscription = await at.subscribe(subscriber.url, soon)
                await at.publish(20)
                await login.asked(1)
            hang.clear()
            async with world.worker("w2"):
                await at.done(subscription, 20)
    assert len({each.body for each in subscriber.received}) == 20
