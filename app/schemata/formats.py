"""What the records of each topic are, as the control plane says."""

from app.domain.feed import Changes
from app.domain.schema import ContentType
from app.schemata.messages import AvroTopic


class TopicFormats:
    """AVRO topics by name; all others need nothing. Pure: it changes only in `apply`."""

    def __init__(self) -> None:
        self._avro: dict[str, AvroTopic] = {}

    def avro(self, topic: str) -> AvroTopic | None:
        """The schemas of an AVRO topic; None: its messages are what they are."""
        return self._avro.get(topic)

    def apply(self, changes: Changes) -> None:
        """Take over what changed."""
        for name in changes.deleted_topics:
            self._avro.pop(name, None)
        for topic in changes.topics:
            if topic.content_type is ContentType.AVRO:
                self._avro[topic.name] = AvroTopic(topic)
            else:
                self._avro.pop(topic.name, None)
