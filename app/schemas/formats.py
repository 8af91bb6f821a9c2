"""What the records of each topic are, as the control plane says, and a schema registry."""

from collections.abc import Iterable
from contextlib import suppress

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.schemas.messages import AvroTopic
from app.schemas.versions import Registered, with_registered


class TopicFormats:
    """AVRO topics by name; all others need nothing. Pure: it changes in `apply` and `learn`."""

    def __init__(self) -> None:
        self._avro: dict[str, AvroTopic] = {}
        # As the control plane has them.
        self._topics = dict[str, Topic]()
        # By version, what it does not have yet, or cannot have.
        self._learned: dict[str, dict[int, Registered]] = {}

    def avro(self, topic: str) -> AvroTopic | None:
        """The schemas of an AVRO topic; None: its messages are what they are."""
        return self._avro.get(topic)

    def versions(self, topic: str) -> frozenset[int]:
        """The numbers of the versions that are known of an AVRO topic."""
        known = self._topics.get(topic)
        own = () if known is None else (each.version for each in known.schemas)
        return frozenset((*own, *self._learned.get(topic, ())))

    def learn(self, topic: str, found: Iterable[Registered]) -> None:
        """Read the topic's messages by these versions, too; what the control plane has goes first.

        They are usable (`require_schema`).
        """
        if topic in self._topics:
            self._learned.setdefault(topic, {}).update({each.version: each for each in found})
            self._make(topic)

    def apply(self, changes: Changes) -> None:
        """Take over what changed."""
        for name in changes.deleted_topics:
            self._forget(name)
        for topic in changes.topics:
            before = self._topics.get(topic.name)
            if before is not None and before.created_at != topic.created_at:
                self._forget(topic.name)
            if topic.content_type is ContentType.AVRO:
                self._topics[topic.name] = topic
                self._make(topic.name)
            else:
                self._forget(topic.name)

    def _make(self, name: str) -> None:
        topic = self._topics[name]
        have = {each.version for each in topic.schemas}
        learned = self._learned.get(name, {})
        new = [each for version, each in learned.items() if version not in have]
        # A topic that has as many versions as it may have gets no more of them here, either.
        with suppress(ValidationFailedError):
            topic = with_registered(topic, new)
        self._avro[name] = AvroTopic(topic)

    def _forget(self, name: str) -> None:
        self._avro.pop(name, None)
        self._topics.pop(name, None)
        self._learned.pop(name, None)
