"""The versions of a topic's schema, in responses."""

from app.api.bodies.base import JsonObject, Schema
from app.domain.catalogue.topic import Topic


class SchemaVersionRead(Schema):
    """One version of a schema. `inForce` is true for the version that validates messages."""

    version: int
    id: int
    in_force: bool


def schema_versions_read(topic: Topic) -> list[JsonObject]:
    """Return the response with all versions of the topic's schema."""
    return [
        SchemaVersionRead(
            version=each.version, id=each.id, in_force=each is topic.schema
        ).answered()
        for each in topic.schemas
    ]
