"""Retransmission by moving a subscription: Hermes' request and answer."""

from typing import Final

from pydantic import Field

from app.api.schemas.base import JsonObject, Schema
from app.domain.operations import DATACENTER
from app.services.seeking import Moved

CLUSTER: Final = DATACENTER


class RetransmissionBody(Schema):
    """From when on messages are sent again; a time to come skips all that is not sent yet."""

    retransmission_date: str = Field(
        description="RFC 3339, UTC unless it has an offset, or -30m, -6h, -2d",
        examples=["2026-01-31T12:00:00Z"],
    )


class TopicNameRead(Schema):
    """A topic, as Hermes names it here."""

    value: str


class PartitionOffsetRead(Schema):
    """Where a subscription goes on in one partition."""

    topic: TopicNameRead
    partition: int
    offset: int


def offsets_by_cluster(moved: Moved) -> dict[str, list[JsonObject]]:
    """The answer."""
    return {CLUSTER: offsets_by_partition(moved)}


def offsets_by_partition(moved: Moved) -> list[JsonObject]:
    """The answer in the form of Hermes' documents, which know of one cluster."""
    topic = TopicNameRead(value=moved.topic)
    offsets = [
        PartitionOffsetRead(topic=topic, partition=partition, offset=offset)
        for partition, offset in enumerate(moved.offsets)
    ]
    return [each.answered() for each in offsets]
