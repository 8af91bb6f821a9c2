"""The demonstration: a topic, three subscribers, and an account of all published events."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from angelia_client import AsyncAngelia, ClientError
from app.cli import output
from app.cli.bodies import subscription_settings, topic_settings
from app.cli.commands.demo.accounting import Account, ListedDiscard, Reported, account_of
from app.cli.commands.demo.events import shop_events
from app.cli.commands.demo.publishing import Publishing
from app.cli.commands.demo.show import SubscriberTally, Update, showing
from app.cli.commands.demo.subscribers import Flaky, Subscriber, broken, healthy
from app.cli.errors import CliError
from app.cli.receiver import Received, ReceiverAnswer, receiving

_PER_SECOND_MIN: Final = 100.0
_PUBLISHING_S: Final = 15.0
_SEED: Final = 20_260_105
_LOOK_EVERY_S: Final = 0.2
# The demo ends if nothing happens for this many seconds. The backoff of a retry is always shorter.
_STANDSTILL_MAX_S: Final = 10.0
# The rate and the request timeout of the subscriptions. The rate is far above the rate of
# publishing, so it does not slow the deliveries down.
_POLICY: Final = {"rate": 5000, "requestTimeout": 5000}


class Demonstration:
    """One run of the demo against a service, with `messages` events."""

    def __init__(self, api: AsyncAngelia, messages: int) -> None:
        self._api = api
        self._messages = messages
        self._topic = f"demo.shop-events-{secrets.token_hex(3)}"
        self._subscribers = {
            each.name: each
            for each in (
                Subscriber("healthy", healthy, clock=time.monotonic),
                Subscriber("flaky", Flaky(messages), clock=time.monotonic),
                Subscriber("broken", broken, clock=time.monotonic),
            )
        }
        self._publishing = Publishing(
            api,
            self._topic,
            shop_events(messages, seed=_SEED),
            per_second=max(_PER_SECOND_MIN, messages / _PUBLISHING_S),
        )

    async def run(self, host: str) -> Sequence[Account]:
        """Publish all events. Return each subscriber's account when the accounts no longer change.

        The topic and its subscriptions are deleted afterwards.
        """
        async with receiving(self._answer, host=host) as endpoint, self._subscribed(endpoint):
            output.write_text(
                f"Publishing {self._messages} events to {self._topic} at {self._api.url}"
            )
            with showing(self._messages, list(self._subscribers)) as update:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._publishing.run())
                    settled = group.create_task(self._settled(update))
            return settled.result()

    def _answer(self, received: Received) -> ReceiverAnswer:
        return self._subscribers[received.path.strip("/")].handle(received)

    @asynccontextmanager
    async def _subscribed(self, endpoint: str) -> AsyncIterator[None]:
        await self._api.topics.create(self._topic, topic_settings(description="angelia demo"))
        try:
            for name in self._subscribers:
                await self._api.subscriptions.create(
                    self._topic,
                    name,
                    f"{endpoint}/{name}",
                    settings=subscription_settings(policy=_POLICY),
                )
            yield
        finally:
            await self._clean_up()

    async def _clean_up(self) -> None:
        try:
            for name in await self._api.subscriptions.names(self._topic):
                await self._api.subscriptions.delete(self._topic, name)
            await self._api.topics.delete(self._topic)
        except ClientError as exc:
            output.write_error(CliError(f"{self._topic} is still there: {exc.message}"))

    async def _settled(self, update: Update) -> Sequence[Account]:
        """Wait until the accounts are complete, and return them.

        The wait also ends if nothing has happened for `_STANDSTILL_MAX_S` seconds.
        """
        last, last_at = self._movement(), time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            update(len(self._publishing.published), self._tallies())
            if self._finished():
                accounts = await self._accounts()
                if not any(each.problems for each in accounts):
                    return accounts
            if (moved := self._movement()) != last:
                last, last_at = moved, time.monotonic()
            elif time.monotonic() - last_at > _STANDSTILL_MAX_S:
                return await self._accounts()

    def _movement(self) -> tuple[int, ...]:
        attempts = (each.seen.attempts.total() for each in self._subscribers.values())
        return (len(self._publishing.published), *attempts)

    def _finished(self) -> bool:
        seen = (each.seen.finished for each in self._subscribers.values())
        return min(len(self._publishing.published), *seen) >= self._messages

    def _tallies(self) -> Sequence[SubscriberTally]:
        return [
            SubscriberTally(
                name=each.name,
                delivered=len(each.seen.taken),
                retried=each.seen.retries,
                discarded=len(each.seen.refused),
            )
            for each in self._subscribers.values()
        ]

    async def _accounts(self) -> Sequence[Account]:
        return [await self._account(each) for each in self._subscribers.values()]

    async def _account(self, subscriber: Subscriber) -> Account:
        every = self._api.undelivered.all(self._topic, subscriber.name)
        listed = [each.raw async for each in every]
        metrics = await self._api.subscriptions.metrics(self._topic, subscriber.name)
        return account_of(
            subscriber.name,
            self._publishing.published,
            subscriber.seen,
            sent=self._messages,
            discards=map(ListedDiscard.of, listed),
            reported=Reported.of(metrics.raw),
        )
