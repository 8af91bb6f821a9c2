"""Adopts a topic that another program created in the log."""

from app.domain.catalogue.adoption import as_in_log
from app.domain.catalogue.topic import Topic
from app.domain.errors import TopicNotFoundError, ValidationFailedError
from app.log.interface import MessageLog


async def taken_over(topic: Topic, log: MessageLog) -> Topic:
    """Return the topic with the settings that it has in the log.

    Raises:
        ValidationFailedError: The topic has too many partitions.
        LogUnavailableError: The log cannot be reached.
    """
    try:
        found = await log.topic(topic.name)
    except TopicNotFoundError as error:
        message = "must be false: the log has no topic of that name (its namespace is in front)"
        raise ValidationFailedError.of("adopted", message) from error
    return as_in_log(topic, partitions=found.partitions, retention=found.retention)
