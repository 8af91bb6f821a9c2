"""Subscriptions, and the secrets that sign their deliveries."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from angelia_client.aio.sending import AsyncSender
from angelia_client.errors import NotFoundError, NotUnderstoodError
from angelia_client.histories import Step, SubscriptionHistory, history_query
from angelia_client.messages import Position
from angelia_client.models import (
    Alert,
    CreatedSubscription,
    Forecast,
    Health,
    NamedSubscriptionMetrics,
    Pong,
    SigningSecret,
    Subscription,
    SubscriptionMetrics,
)
from angelia_client.requests import (
    Request,
    asking,
    creating,
    escaped,
    get,
    in_numbers,
    moment_text,
    query_of,
    subscription_path,
    topic_path,
    with_json,
)


class AsyncSubscriptions:
    """`client.subscriptions`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def names(self, topic: str) -> list[str]:
        """The names of a topic's subscriptions."""
        return (await self._sender.send(get(f"{topic_path(topic)}/subscriptions"))).listed()

    async def query(self, query: Mapping[str, Any] | None = None) -> AsyncIterator[Subscription]:
        """Yield the subscriptions of any topic that match a query of Hermes; without one all."""
        async for found in self._sender.listed(asking("/query/subscriptions", query or {})):
            yield Subscription.of(found)

    async def get(self, topic: str, name: str) -> Subscription:
        """Return a subscription.

        Raises:
            NotFoundError: It does not exist.
        """
        return Subscription.of(await self._sender.json(get(subscription_path(topic, name))))

    async def exists(self, topic: str, name: str) -> bool:
        """Whether the topic, which must exist, has a subscription with that name."""
        try:
            await self.get(topic, name)
        except NotFoundError as error:
            if error.code != "SUBSCRIPTION_NOT_EXISTS":
                raise
            return False
        return True

    async def create(
        self,
        topic: str,
        name: str,
        endpoint: str,
        *,
        settings: Mapping[str, Any] | None = None,
        start_from: datetime | str | None = None,
    ) -> CreatedSubscription:
        """Subscribe `endpoint`: it gets messages from now on.

        `settings` are as in the API's subscription body, which requires an `owner`. With
        `start_from` it first gets earlier messages: since a time, for a duration (`-6h`), or from
        the `earliest`. Its `history` says which of them come from the archive, and how many are
        gone.
        """
        body = {**(settings or {}), "topicName": topic, "name": name, "endpoint": endpoint}
        if start_from is not None:
            body["startFrom"] = moment_text(start_from)
        path = f"{topic_path(topic)}/subscriptions"
        made = await self._sender.json(creating(path, body, key=str(uuid4())))
        return CreatedSubscription.of(made)

    async def change(self, topic: str, name: str, *, patch: Mapping[str, Any]) -> Subscription:
        """Change the settings in `patch`; None sets one back to its default."""
        request = with_json("PUT", subscription_path(topic, name), patch)
        return Subscription.of(await self._sender.json(request))

    async def suspend(self, topic: str, name: str) -> Subscription:
        """Stop delivering; messages that are published meanwhile wait."""
        return await self._set_state(topic, name, state="SUSPENDED")

    async def activate(self, topic: str, name: str) -> Subscription:
        """Deliver again, from where it stopped."""
        return await self._set_state(topic, name, state="ACTIVE")

    async def delete(self, topic: str, name: str) -> None:
        """Unsubscribe."""
        await self._sender.send(Request(method="DELETE", path=subscription_path(topic, name)))

    async def metrics(self, topic: str, name: str) -> SubscriptionMetrics:
        """Return its counts and rates."""
        path = f"{subscription_path(topic, name)}/metrics"
        return SubscriptionMetrics.of(await self._sender.json(in_numbers(get(path))))

    async def metrics_history(
        self,
        topic: str,
        name: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Step | None = None,
    ) -> SubscriptionHistory:
        """Return its metrics over time; by default of the last day, by minute."""
        path = f"{subscription_path(topic, name)}/metrics/history"
        request = get(path, history_query(start, end, step))
        return SubscriptionHistory.of(await self._sender.json(request))

    async def query_metrics(
        self, query: Mapping[str, Any] | None = None
    ) -> AsyncIterator[NamedSubscriptionMetrics]:
        """Yield them for all subscriptions that match a query: `{"lag": {"gt": 99}}`."""
        path = "/query/subscriptions/metrics"
        async for found in self._sender.listed(in_numbers(asking(path, query or {}))):
            yield NamedSubscriptionMetrics.of(found)

    async def health(self, topic: str, name: str) -> Health:
        """Return its health by Hermes' indicators, as of a few seconds ago."""
        return Health.of(await self._sender.json(get(f"{subscription_path(topic, name)}/health")))

    async def forecast(self, topic: str, name: str) -> Forecast:
        """Return its backlog, when that will be delivered, and what will be lost before."""
        path = f"{subscription_path(topic, name)}/forecast"
        return Forecast.of(await self._sender.json(get(path)))

    async def alerts(self, *, active: bool = True, limit: int = 100) -> list[Alert]:
        """Return problems of subscriptions (also past ones, with `active` False), newest first."""
        answer = await self._sender.send(get("/alerts", {"active": active, "limit": limit}))
        return [Alert.of(each) for each in answer.listed()]

    async def ping(self, topic: str, name: str) -> Pong:
        """Send one test message now, and return the endpoint's response."""
        path = f"{subscription_path(topic, name)}/ping"
        return Pong.of(await self._sender.json(Request(method="POST", path=path)))

    async def retransmit(
        self, topic: str, name: str, *, since: datetime | str, dry_run: bool = False
    ) -> list[Position]:
        """Send again everything published since a time: the subscription is moved back there.

        `since` is a time or a duration before now: `-6h`, `-30m`, `-2d`. If it is later than the
        last delivered message, messages before it are skipped. With `dry_run` nothing is moved.
        Returns the new position in each partition.
        """
        said = moment_text(since)
        query = query_of({"dryRun": True if dry_run else None})
        path = f"{subscription_path(topic, name)}/retransmission{query}"
        request = with_json("PUT", path, {"retransmissionDate": said})
        return _positions(await self._sender.json(request))

    async def _set_state(self, topic: str, name: str, *, state: str) -> Subscription:
        request = with_json("PUT", f"{subscription_path(topic, name)}/state", state)
        return Subscription.of(await self._sender.json(request))


class AsyncSigningSecrets:
    """`client.signing_secrets`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def all(self, topic: str, name: str) -> list[SigningSecret]:
        """Return the secrets that sign a subscription's deliveries, masked."""
        answer = await self._sender.send(get(_secrets(topic, name)))
        return [SigningSecret.of(each) for each in answer.listed()]

    async def create(
        self, topic: str, name: str, *, settings: Mapping[str, Any] | None = None
    ) -> SigningSecret:
        """Add a signing secret; only this response contains it.

        `settings`: `type` (v1 or v1a), an existing `secret`, and `overlap`, for how many seconds
        the older ones continue to sign.
        """
        request = with_json("POST", _secrets(topic, name), settings or {})
        return SigningSecret.of(await self._sender.json(request))

    async def delete(self, topic: str, name: str, *, secret_id: str) -> None:
        """Stop signing with it."""
        path = f"{_secrets(topic, name)}/{escaped(secret_id)}"
        await self._sender.send(Request(method="DELETE", path=path))


def _secrets(topic: str, name: str) -> str:
    return f"{subscription_path(topic, name)}/secrets"


def _positions(answer: Any) -> list[Position]:  # noqa: ANN401 - JSON is of any type
    try:
        return [
            Position(partition=each["partition"], offset=each["offset"])
            for cluster in answer.values()
            for each in cluster
        ]
    except (AttributeError, TypeError, KeyError) as exc:
        raise NotUnderstoodError("The answer tells no positions") from exc
