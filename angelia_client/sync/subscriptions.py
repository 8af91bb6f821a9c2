"""Subscriptions, and the secrets that sign their deliveries."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

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
from angelia_client.sync.sending import Sender


class Subscriptions:
    """The methods of `client.subscriptions`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def names(self, topic: str) -> list[str]:
        """Return the names of a topic's subscriptions."""
        return (self._sender.send(get(f"{topic_path(topic)}/subscriptions"))).listed()

    def query(self, query: Mapping[str, Any] | None = None) -> Iterator[Subscription]:
        """Yield the subscriptions of all topics that match a query in Hermes' query language.

        Without a query, yield all subscriptions.
        """
        for found in self._sender.listed(asking("/query/subscriptions", query or {})):
            yield Subscription.of(found)

    def get(self, topic: str, name: str) -> Subscription:
        """Return a subscription.

        Raises:
            NotFoundError: The topic or the subscription does not exist.
        """
        return Subscription.of(self._sender.json(get(subscription_path(topic, name))))

    def exists(self, topic: str, name: str) -> bool:
        """Return whether the topic has a subscription with that name. The topic must exist."""
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
        """Subscribe `endpoint` to a topic. The endpoint gets messages from now on.

        `settings` are fields of the API's subscription body, which requires an `owner`.

        With `start_from`, the endpoint first gets earlier messages. `start_from` is a time, a
        duration before now (such as `-6h`), or `earliest` for all messages. The `history` of the
        result says which of the earlier messages come from the archive, and how many are gone.
        """
        body = {**(settings or {}), "topicName": topic, "name": name, "endpoint": endpoint}
        if start_from is not None:
            body["startFrom"] = moment_text(start_from)
        path = f"{topic_path(topic)}/subscriptions"
        made = self._sender.json(creating(path, body, key=str(uuid4())))
        return CreatedSubscription.of(made)

    def change(self, topic: str, name: str, *, patch: Mapping[str, Any]) -> Subscription:
        """Change the settings in `patch`. The value None sets a setting back to its default."""
        request = with_json("PUT", subscription_path(topic, name), patch)
        return Subscription.of(self._sender.json(request))

    def suspend(self, topic: str, name: str) -> Subscription:
        """Suspend a subscription: nothing is delivered, and new messages wait."""
        return self._set_state(topic, name, state="SUSPENDED")

    def activate(self, topic: str, name: str) -> Subscription:
        """Activate a subscription: delivery continues where it stopped."""
        return self._set_state(topic, name, state="ACTIVE")

    def delete(self, topic: str, name: str) -> None:
        """Delete a subscription."""
        self._sender.send(Request(method="DELETE", path=subscription_path(topic, name)))

    def metrics(self, topic: str, name: str) -> SubscriptionMetrics:
        """Return the counts and rates of a subscription."""
        path = f"{subscription_path(topic, name)}/metrics"
        return SubscriptionMetrics.of(self._sender.json(in_numbers(get(path))))

    def metrics_history(
        self,
        topic: str,
        name: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Step | None = None,
    ) -> SubscriptionHistory:
        """Return the metrics of a subscription over time.

        By default, return the metrics of the last day, by minute.
        """
        path = f"{subscription_path(topic, name)}/metrics/history"
        request = get(path, history_query(start, end, step))
        return SubscriptionHistory.of(self._sender.json(request))

    def query_metrics(
        self, query: Mapping[str, Any] | None = None
    ) -> Iterator[NamedSubscriptionMetrics]:
        """Yield the metrics of all subscriptions that match a query.

        A query is, for example, `{"lag": {"gt": 99}}`.
        """
        path = "/query/subscriptions/metrics"
        for found in self._sender.listed(in_numbers(asking(path, query or {}))):
            yield NamedSubscriptionMetrics.of(found)

    def health(self, topic: str, name: str) -> Health:
        """Return the health of a subscription, by the indicators that Hermes has.

        The service evaluated the health a few seconds ago.
        """
        return Health.of(self._sender.json(get(f"{subscription_path(topic, name)}/health")))

    def forecast(self, topic: str, name: str) -> Forecast:
        """Return how many messages wait, when they will be delivered, and which will be lost."""
        path = f"{subscription_path(topic, name)}/forecast"
        return Forecast.of(self._sender.json(get(path)))

    def alerts(self, *, active: bool = True, limit: int = 100) -> list[Alert]:
        """Return problems of subscriptions, newest first.

        If `active` is False, return past problems too.
        """
        answer = self._sender.send(get("/alerts", {"active": active, "limit": limit}))
        return [Alert.of(each) for each in answer.listed()]

    def ping(self, topic: str, name: str) -> Pong:
        """Send one test message now, and return the endpoint's response."""
        path = f"{subscription_path(topic, name)}/ping"
        return Pong.of(self._sender.json(Request(method="POST", path=path)))

    def retransmit(
        self, topic: str, name: str, *, since: datetime | str, dry_run: bool = False
    ) -> list[Position]:
        """Move a subscription back in its topic. Everything published since a time is sent again.

        `since` is a time, or a duration before now: `-6h`, `-30m`, `-2d`. If the time is later than
        the last delivered message, the messages before the time are skipped. With `dry_run` nothing
        is moved. Return the new position in each partition.
        """
        text = moment_text(since)
        query = query_of({"dryRun": True if dry_run else None})
        path = f"{subscription_path(topic, name)}/retransmission{query}"
        request = with_json("PUT", path, {"retransmissionDate": text})
        return _positions(self._sender.json(request))

    def _set_state(self, topic: str, name: str, *, state: str) -> Subscription:
        request = with_json("PUT", f"{subscription_path(topic, name)}/state", state)
        return Subscription.of(self._sender.json(request))


class SigningSecrets:
    """The methods of `client.signing_secrets`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(self, topic: str, name: str) -> list[SigningSecret]:
        """Return the secrets that sign a subscription's deliveries, masked."""
        answer = self._sender.send(get(_secrets(topic, name)))
        return [SigningSecret.of(each) for each in answer.listed()]

    def create(
        self, topic: str, name: str, *, settings: Mapping[str, Any] | None = None
    ) -> SigningSecret:
        """Add a signing secret. Only this response contains the secret.

        `settings` may have a `type` (v1 or v1a), an existing `secret`, and an `overlap`: for how
        many seconds the older secrets continue to sign.
        """
        request = with_json("POST", _secrets(topic, name), settings or {})
        return SigningSecret.of(self._sender.json(request))

    def delete(self, topic: str, name: str, *, secret_id: str) -> None:
        """Stop signing with the secret `secret_id`."""
        path = f"{_secrets(topic, name)}/{escaped(secret_id)}"
        self._sender.send(Request(method="DELETE", path=path))


def _secrets(topic: str, name: str) -> str:
    return f"{subscription_path(topic, name)}/secrets"


def _positions(answer: Any) -> list[Position]:  # noqa: ANN401 - JSON can have any type
    try:
        return [
            Position(partition=each["partition"], offset=each["offset"])
            for cluster in answer.values()
            for each in cluster
        ]
    except (AttributeError, TypeError, KeyError) as exc:
        raise NotUnderstoodError("The answer tells no positions") from exc
