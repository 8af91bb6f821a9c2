"""Previews of a topic's messages, and the consumer groups of subscriptions, in Hermes' form."""

from typing import Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.catalogue.operations import DATACENTER
from app.domain.message import Message
from app.services.inspection.consumer_groups import ConsumerGroup, GroupMember, GroupPartition

CONTENT_MAX = 10 * 1024


class PreviewRead(Schema):
    """A message of a topic: its text, or the start of it."""

    content: str
    truncated: bool = Field(description=f"whether it has more than {CONTENT_MAX} bytes")
    message_id: str
    timestamp: int = Field(description="when it was published, ms since the epoch")
    partition: int
    offset: int


def preview_read(message: Message) -> PreviewRead:
    """Return the response for one message."""
    body = message.stored
    return PreviewRead(
        content=body[:CONTENT_MAX].decode("utf-8", "replace"),
        truncated=len(body) > CONTENT_MAX,
        message_id=message.id.decode("utf-8", "replace"),
        timestamp=message.published_ms,
        partition=message.partition.index,
        offset=message.offset,
    )


class GroupPartitionRead(Schema):
    """The position of a subscription in one partition.

    Without `currentOffset`, nothing is committed yet.
    """

    partition: int
    topic: str
    current_offset: int | None = None
    log_end_offset: int
    lag: int | None = Field(default=None, description="messages")
    offset_metadata: str
    content_type: Literal["JSON", "AVRO"] = Field(description="of the topic's messages")


class GroupMemberRead(Schema):
    """A running worker, and the partitions in which it delivers this subscription's messages."""

    consumer_id: str
    client_id: str
    host: str
    partitions: list[GroupPartitionRead]


class ConsumerGroupRead(Schema):
    """A subscription as its consumer group in the log.

    Workers own partitions in another group, so standard tools show this group without members.
    """

    cluster_name: str = DATACENTER
    group_id: str
    state: str = Field(description="`Stable` with members, else `Empty`", examples=["Stable"])
    members: list[GroupMemberRead]
    partitions: list[GroupPartitionRead] = Field(description="all, whoever has them")


def consumer_group_read(group: ConsumerGroup) -> ConsumerGroupRead:
    """Return the response for a subscription's group."""
    return ConsumerGroupRead(
        group_id=group.id,
        state="Stable" if group.members else "Empty",
        members=[_member_read(each, group) for each in group.members],
        partitions=[_partition_read(each, group) for each in group.partitions],
    )


def _member_read(member: GroupMember, group: ConsumerGroup) -> GroupMemberRead:
    return GroupMemberRead(
        consumer_id=member.worker,
        client_id=member.worker,
        host=member.host,
        partitions=[_partition_read(each, group) for each in member.partitions],
    )


def _partition_read(standing: GroupPartition, group: ConsumerGroup) -> GroupPartitionRead:
    return GroupPartitionRead(
        partition=standing.partition.index,
        topic=standing.partition.topic,
        current_offset=standing.current,
        log_end_offset=standing.end,
        lag=standing.lag,
        offset_metadata=standing.metadata,
        content_type=group.content_type.value,
    )
