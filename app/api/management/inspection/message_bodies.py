"""Messages found in the log."""

from typing import Annotated

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.management.discards.undelivered_bodies import in_base64
from app.domain.message import Message


class MessageRead(Schema):
    """A message of a topic, and its position in the log."""

    message_id: str
    timestamp: Annotated[int, Field(description="when it was published, ms since the epoch")]
    topic_name: str
    partition: int
    offset: int
    key: str | None = Field(default=None, description="its Partition-Key")
    message: str = Field(description="the body as text")
    message_base64: str | None = Field(default=None, description="the body, when it is not UTF-8")


def message_read(message: Message) -> MessageRead:
    """Return the response for one message."""
    body = message.stored
    return MessageRead(
        message_id=message.id.decode("utf-8", "replace"),
        timestamp=message.published_ms,
        topic_name=message.partition.topic,
        partition=message.partition.index,
        offset=message.offset,
        key=None if message.key is None else message.key.decode("utf-8", "replace"),
        message=body.decode("utf-8", "replace"),
        message_base64=in_base64(body),
    )
