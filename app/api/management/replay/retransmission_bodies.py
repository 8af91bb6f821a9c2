"""Retransmission by moving a subscription, in Hermes' form."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema
from app.api.bodies.moments import MomentText
from app.api.management.replay.retransmission_fields import RetransmissionWay, parsed
from app.domain.catalogue.operations import DATACENTER
from app.domain.errors import ValidationFailedError
from app.services.replay.seeks import Moved

CLUSTER: Final = DATACENTER


class RetransmissionBody(Schema):
    """The time from which messages are sent again; a future time skips all unsent ones."""

    retransmission_date: MomentText = Field(
        description="RFC 3339, UTC unless it has an offset, ms, or -30m, -6h, -2d",
        examples=["2026-01-31T12:00:00Z"],
    )
    dry_run: bool = Field(default=False, description="only say where it would go on")


class PartitionOffsetBody(OwnSchema):
    """The new position in one partition."""

    partition: int = Field(ge=0, le=100_000)
    offset: Annotated[int, Field(ge=0, le=2**62)]


class SeekBody(OwnSchema):
    """The new position of a subscription: a time, or offsets with one for each partition."""

    mode: Literal["seek"]
    only: Literal["all"] = Field(default="all", description="it gets all from there on")
    from_: MomentText | None = Field(
        default=None, alias="from", description="RFC 3339, ms, or -30m, -6h, -2d"
    )
    offsets: list[PartitionOffsetBody] | None = Field(
        default=None, min_length=1, max_length=1_000, description="instead of from"
    )
    dry_run: bool = Field(default=False, description="only say where it would go on")


class TopicNameRead(Schema):
    """A topic in the form of Hermes."""

    value: str


class PartitionOffsetRead(Schema):
    """The new position of a subscription in one partition."""

    topic: TopicNameRead
    partition: int
    offset: int


def seek_body(body: JsonObject) -> SeekBody:
    """Return the request for a seek. No field is ignored.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    requested = parsed(SeekBody, body, RetransmissionWay.SEEK)
    if (requested.from_ is None) == (requested.offsets is None):
        raise ValidationFailedError.of("from", "must be given, or offsets, and not both")
    return requested


def seek_offsets(body: SeekBody) -> Mapping[int, int]:
    """Return the requested offsets by partition.

    Raises:
        ValidationFailedError: A partition is named twice.
    """
    given = body.offsets or []
    found = {each.partition: each.offset for each in given}
    if len(found) < len(given):
        raise ValidationFailedError.of("offsets", "must have each partition once")
    return found


def offsets_by_cluster(moved: Moved) -> dict[str, list[JsonObject]]:
    """Return the response to a seek: the new offsets, by the name of the cluster."""
    return {CLUSTER: offsets_by_partition(moved)}


def offsets_by_partition(moved: Moved) -> list[JsonObject]:
    """Return the new offsets in the form of Hermes' documents: one list, for the only cluster."""
    topic = TopicNameRead(value=moved.topic)
    offsets = [
        PartitionOffsetRead(topic=topic, partition=partition, offset=offset)
        for partition, offset in enumerate(moved.offsets)
    ]
    return [each.answered() for each in offsets]
