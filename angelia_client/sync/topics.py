"""Groups and topics, and the messages in them."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from angelia_client.errors import NotFoundError
from angelia_client.histories import Step, TopicHistory, history_query
from angelia_client.messages import Message, TraceEntry
from angelia_client.models import NamedTopicMetrics, Topic, TopicMetrics
from angelia_client.requests import (
    Request,
    asking,
    creating,
    escaped,
    get,
    in_numbers,
    subscription_path,
    topic_path,
    with_json,
)
from angelia_client.sync.sending import Sender


class Groups:
    """The methods of `client.groups`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def names(self) -> list[str]:
        """Return the names of all groups."""
        return (self._sender.send(get("/groups"))).listed()

    def create(self, name: str) -> None:
        """Create a group."""
        self._sender.send(creating("/groups", {"groupName": name}, key=str(uuid4())))

    def delete(self, name: str) -> None:
        """Delete a group without topics."""
        self._sender.send(Request(method="DELETE", path=f"/groups/{escaped(name)}"))


class Topics:
    """The methods of `client.topics`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def names(self, *, group: str | None = None) -> list[str]:
        """Return the full names of all topics, or of the topics of a group."""
        return (self._sender.send(get("/topics", {"groupName": group}))).listed()

    def query(self, query: Mapping[str, Any] | None = None) -> Iterator[Topic]:
        """Yield the topics that match a query in Hermes' query language.

        Without a query, yield all topics.

        A query is, for example, `{"name": {"like": ".*orders"}}`.
        """
        for found in self._sender.listed(asking("/query/topics", query or {})):
            yield Topic.of(found)

    def get(self, name: str) -> Topic:
        """Return a topic.

        Raises:
            NotFoundError: The topic does not exist.
        """
        return Topic.of(self._sender.json(get(topic_path(name))))

    def exists(self, name: str) -> bool:
        """Return whether a topic with that name exists."""
        try:
            self.get(name)
        except NotFoundError:
            return False
        return True

    def create(self, name: str, settings: Mapping[str, Any] | None = None) -> Topic:
        """Create a topic, and its group if needed.

        `settings` are fields of the API's topic body.
        """
        body = {**(settings or {}), "name": name}
        return Topic.of(self._sender.json(creating("/topics", body, key=str(uuid4()))))

    def change(self, name: str, patch: Mapping[str, Any]) -> Topic:
        """Change the settings in `patch`. The value None sets a setting back to its default."""
        return Topic.of(self._sender.json(with_json("PUT", topic_path(name), patch)))

    def delete(self, name: str) -> None:
        """Delete a topic with its messages. The topic must have no subscriptions."""
        self._sender.send(Request(method="DELETE", path=topic_path(name)))

    def metrics(self, name: str) -> TopicMetrics:
        """Return the metrics of a topic."""
        request = in_numbers(get(f"{topic_path(name)}/metrics"))
        return TopicMetrics.of(self._sender.json(request))

    def metrics_history(
        self,
        name: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Step | None = None,
    ) -> TopicHistory:
        """Return the metrics of a topic over time.

        By default, return the metrics of the last day, by minute.
        """
        path = f"{topic_path(name)}/metrics/history"
        return TopicHistory.of(self._sender.json(get(path, history_query(start, end, step))))

    def query_metrics(self, query: Mapping[str, Any] | None = None) -> Iterator[NamedTopicMetrics]:
        """Yield the metrics of all topics that match a query.

        A query is, for example, `{"deliveryRate": {"gt": 9}}`.
        """
        request = in_numbers(asking("/query/topics/metrics", query or {}))
        for found in self._sender.listed(request):
            yield NamedTopicMetrics.of(found)


class Messages:
    """The methods of `client.messages`: messages in the log, and their outcomes."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        path: str | None = None,
        value: str | None = None,
        message_id: str | None = None,
        text: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Message]:
        """Yield the messages of the topic that match one condition, one partition after the other.

        The service may have to read many messages between two results.

        Args:
            topic: The name of the topic.
            key: Condition: the partition key of the message.
            path: Condition: a JSONPath at which the body has `value`.
            value: The value at `path`: a text, or JSON such as 42 or true.
            message_id: Condition: the id of the message.
            text: Condition: a part of the body.
            since: The earliest time of publication. By default the last hour is searched.
            until: The time before which the message was published.
        """
        query = {
            "key": key,
            "path": path,
            "value": value,
            "messageId": message_id,
            "text": text,
            "since": since,
            "until": until,
        }
        for found in self._sender.listed(get(f"{topic_path(topic)}/messages", query)):
            yield Message.of(found)

    def trace(
        self, message_id: str, *, topic: str | None = None, subscription: str | None = None
    ) -> list[TraceEntry]:
        """Return what happened to a message, the oldest event first.

        The events are from all topics, from one topic, or from one subscription.
        """
        if subscription is not None and topic is None:
            raise ValueError("a subscription is named together with its topic")
        where = "" if topic is None else topic_path(topic)
        if topic is not None and subscription is not None:
            where = subscription_path(topic, subscription)
        answer = self._sender.send(get(f"{where}/events/{escaped(message_id)}/trace"))
        return [TraceEntry.of(each) for each in answer.listed()]
