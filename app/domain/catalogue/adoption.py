"""Topics that were in the log before: they are taken over as they are there (pure)."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from app.domain.catalogue.topic import RETENTION_MAX, Topic
from app.domain.errors import ValidationFailedError

_RETENTION_MIN: Final = timedelta(seconds=1)


def as_in_log(topic: Topic, *, partitions: int, retention: timedelta) -> Topic:
    """The adopted topic as the log has it; ValidationFailedError for too many partitions.

    Partitions never become fewer. Retention is counted in whole seconds, up to the longest.
    """
    kept = min(RETENTION_MAX, max(_RETENTION_MIN, retention))
    return replace(
        topic,
        partitions=max(partitions, topic.partitions if topic.change else 0),
        retention=kept - kept % timedelta(seconds=1),
    )


def require_kept(current: Topic, wanted: Topic) -> None:
    """ValidationFailedError if that would change in the log what is not ours."""
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
