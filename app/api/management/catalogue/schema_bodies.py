"""Versions of a topic's schema."""

from app.api.bodies.base import JsonObject, Schema
from app.domain.catalogue.topic import Topic


class SchemaVersionRead(Schema):
    """One version of a schema. `inForce` is true for the version that validates messages."""

    version: int
    id: int
    in_force: bool


def schema_versions_read(topic: Topic) -> list[JsonObject]:
    """Return the response for the topic's versions."""
    return [
        SchemaVersionRead(
            version=each.version, id=each.id, in_force=each is topic.schema
        ).answered()
        for each in topic.schemas
    ]
