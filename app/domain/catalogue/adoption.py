"""The rules for topics that existed in the log before they were created in Angelia (pure).

Such a topic is adopted: it keeps the settings that it has in the log.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from app.domain.catalogue.topic import RETENTION_MAX, Topic
from app.domain.errors import ValidationFailedError

_RETENTION_MIN: Final = timedelta(seconds=1)


def as_in_log(topic: Topic, *, partitions: int, retention: timedelta) -> Topic:
    """Return the adopted topic with the partitions and the retention that it has in the log.

    The number of partitions of a topic that Angelia already knows is never reduced. Retention is
    rounded down to seconds.

    Raises:
        ValidationFailedError: The topic has too many partitions.
    """
    kept = min(RETENTION_MAX, max(_RETENTION_MIN, retention))
    return replace(
        topic,
        partitions=max(partitions, topic.partitions if topic.change else 0),
        retention=kept - kept % timedelta(seconds=1),
    )


def require_kept(current: Topic, wanted: Topic) -> None:
    """Check that an update changes no setting that an adopted topic has in the log.

    Raises:
        ValidationFailedError: The update changes partitions or retention of an adopted topic, or
            whether the topic is adopted.
    """
    if wanted.adopted != current.adopted:
        message = f"must be {str(current.adopted).lower()}: it is set when a topic is created"
        raise ValidationFailedError.of("adopted", message)
    if not current.adopted:
        return
    if wanted.partitions != current.partitions:
        message = f"must be {current.partitions}, as in Kafka: the topic was adopted"
        raise ValidationFailedError.of("partitions", message)
    if wanted.retention != current.retention:
        message = "must stay as it is: the topic was adopted, and Kafka has its retention"
        raise ValidationFailedError.of("retentionTime.duration", message)
