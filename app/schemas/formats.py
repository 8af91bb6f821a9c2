"""The content types and schemas of topics, from the database and from a schema registry."""

from collections.abc import Iterable
from contextlib import suppress

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.schemas.messages import AvroTopic
from app.schemas.versions import Registered, with_registered


class TopicFormats:
    """The schemas of AVRO topics, by the topic's name. Topics without an entry are JSON topics.

    The state changes only in `apply` and `learn`, which do no I/O.
    """

    def __init__(self) -> None:
        self._avro: dict[str, AvroTopic] = {}
        # The AVRO topics, as they are in the database.
        self._topics = dict[str, Topic]()
        # Versions from the registry, by topic and number. The database does not have these versions
        # yet. Or it cannot store them, because the topic has the maximum number of versions.
        self._learned: dict[str, dict[int, Registered]] = {}

    def avro(self, topic: str) -> AvroTopic | None:
        """Return the schemas of an AVRO topic; None for other topics."""
        return self._avro.get(topic)

    def versions(self, topic: str) -> frozenset[int]:
        """Return the numbers of the known versions of an AVRO topic."""
        known = self._topics.get(topic)
        own = () if known is None else (each.version for each in known.schemas)
        return frozenset((*own, *self._learned.get(topic, ())))

    def learn(self, topic: str, found: Iterable[Registered]) -> None:
        """Use these versions from the registry for the topic's messages, too.

        If the database has a version with the same number, the database's version is used. Each
        version must be valid (`require_schema`).
        """
        if topic in self._topics:
            self._learned.setdefault(topic, {}).update({each.version: each for each in found})
            self._make(topic)

    def apply(self, changes: Changes) -> None:
        """Apply changes of topics from the database."""
        for name in changes.deleted_topics:
            self._forget(name)
        for topic in changes.topics:
            before = self._topics.get(topic.name)
            if before == topic:
                continue
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
        # Ignore the error of a topic with the maximum number of versions. Such a topic gets no more
        # versions here either.
        with suppress(ValidationFailedError):
            topic = with_registered(topic, new)
        self._avro[name] = AvroTopic(topic)

    def _forget(self, name: str) -> None:
        self._avro.pop(name, None)
        self._topics.pop(name, None)
        self._learned.pop(name, None)
