"""Subscriptions, and what their deliveries are signed with."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from angelia_client.errors import NotFoundError, NotUnderstoodError
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
from angelia_client.sync.sending import Sender


class Subscriptions:
    """`client.subscriptions`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def names(self, topic: str) -> list[str]:
        """The names of a topic's subscriptions."""
        return (self._sender.send(get(f"{topic_path(topic)}/subscriptions"))).listed()

    def query(self, query: Mapping[str, Any] | None = None) -> Iterator[Subscription]:
        """The subscriptions of any topic for which a query of Hermes holds; without one all."""
        for found in self._sender.listed(asking("/query/subscriptions", query or {})):
            yield Subscription.of(found)

    def get(self, topic: str, name: str) -> Subscription:
        """A subscription; NotFoundError."""
        return Subscription.of(self._sender.json(get(subscription_path(topic, name))))

    def exists(self, topic: str, name: str) -> bool:
        """Whether the topic, which must exist, has such a subscription."""
        try:
            self.get(topic, name)
        except NotFoundError as error:
            if error.code != "SUBSCRIPTION_NOT_EXISTS":
                raise
            return False
        return True

    def create(
        self,
        topic: str,
        name: str,
        endpoint: str,
        *,
        settings: Mapping[str, Any] | None = None,
        start_from: datetime | str | None = None,
    ) -> CreatedSubscription:
        """Subscribe `endpoint`: it gets what is published from now on.

        `settings` are as in the API's subscription body, which asks for an `owner`. It gets what
        was published since `start_from` first: a time, how long ago (`-6h`), or `earliest`. Its
        `history` says what of that comes from the archive, and what is gone.
        """
        body = {**(settings or {}), "topicName": topic, "name": name, "endpoint": endpoint}
        if start_from is not None:
            body["startFrom"] = moment_text(start_from)
        path = f"{topic_path(topic)}/subscriptions"
        made = self._sender.json(creating(path, body, key=str(uuid4())))
        return CreatedSubscription.of(made)

    def change(self, topic: str, name: str, *, patch: Mapping[str, Any]) -> Subscription:
        """Change the settings that are in `patch`; None takes one back to its default."""
        request = with_json("PUT", subscription_path(topic, name), patch)
        return Subscription.of(self._sender.json(request))

    def suspend(self, topic: str, name: str) -> Subscription:
        """Stop delivering; what is published meanwhile waits."""
        return self._set_state(topic, name, state="SUSPENDED")

    def activate(self, topic: str, name: str) -> Subscription:
        """Deliver again, from where it stopped."""
        return self._set_state(topic, name, state="ACTIVE")

    def delete(self, topic: str, name: str) -> None:
        """Unsubscribe."""
        self._sender.send(Request(method="DELETE", path=subscription_path(topic, name)))

    def metrics(self, topic: str, name: str) -> SubscriptionMetrics:
        """Its counts and rates."""
        path = f"{subscription_path(topic, name)}/metrics"
        return SubscriptionMetrics.of(self._sender.json(in_numbers(get(path))))

    def query_metrics(
        self, query: Mapping[str, Any] | None = None
    ) -> Iterator[NamedSubscriptionMetrics]:
        """The same of all subscriptions whose figures a query holds for (`{"lag": {"gt": 99}}`)."""
        path = "/query/subscriptions/metrics"
        for found in self._sender.listed(in_numbers(asking(path, query or {}))):
            yield NamedSubscriptionMetrics.of(found)

    def health(self, topic: str, name: str) -> Health:
        """How it does, by Hermes' indicators, as of a few seconds ago."""
        return Health.of(self._sender.json(get(f"{subscription_path(topic, name)}/health")))

    def forecast(self, topic: str, name: str) -> Forecast:
        """What waits for it, when that is delivered, and what will be lost before it is."""
        path = f"{subscription_path(topic, name)}/forecast"
        return Forecast.of(self._sender.json(get(path)))

    def alerts(self, *, active: bool = True, limit: int = 100) -> list[Alert]:
        """What is wrong with subscriptions (or also was, with `active` False), newest first."""
        answer = self._sender.send(get("/alerts", {"active": active, "limit": limit}))
        return [Alert.of(each) for each in answer.listed()]

    def ping(self, topic: str, name: str) -> Pong:
        """Send one test message now, and tell how the endpoint answered."""
        path = f"{subscription_path(topic, name)}/ping"
        return Pong.of(self._sender.json(Request(method="POST", path=path)))

    def retransmit(
        self, topic: str, name: str, *, since: datetime | str, dry_run: bool = False
    ) -> list[Position]:
        """Send again all that was published since a time: the subscription is moved back there.

        `since` is a time, or says how long ago: `-6h`, `-30m`, `-2d`. Where it is later than what
        was delivered, messages before it are skipped. With `dry_run` nothing is moved. Answers
        where each partition goes on.
        """
        said = moment_text(since)
        query = query_of({"dryRun": True if dry_run else None})
        path = f"{subscription_path(topic, name)}/retransmission{query}"
        request = with_json("PUT", path, {"retransmissionDate": said})
        return _positions(self._sender.json(request))

    def _set_state(self, topic: str, name: str, *, state: str) -> Subscription:
        request = with_json("PUT", f"{subscription_path(topic, name)}/state", state)
        return Subscription.of(self._sender.json(request))


class SigningSecrets:
    """`client.signing_secrets`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(self, topic: str, name: str) -> list[SigningSecret]:
        """What a subscription's deliveries are signed with, without the secrets themselves."""
        answer = self._sender.send(get(_secrets(topic, name)))
        return [SigningSecret.of(each) for each in answer.listed()]

    def create(
        self, topic: str, name: str, *, settings: Mapping[str, Any] | None = None
    ) -> SigningSecret:
        """Sign with another secret, too; this answer alone has it.

        `settings`: `type` (v1 or v1a), a `secret` that you have already, and `overlap`, for how
        many seconds the older ones go on signing.
        """
        request = with_json("POST", _secrets(topic, name), settings or {})
        return SigningSecret.of(self._sender.json(request))

    def delete(self, topic: str, name: str, *, secret_id: str) -> None:
        """Sign with it no more."""
        path = f"{_secrets(topic, name)}/{escaped(secret_id)}"
        self._sender.send(Request(method="DELETE", path=path))


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
