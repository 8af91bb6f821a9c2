"""The schemas of a JSON topic that becomes AVRO (Hermes' `migratedFromJsonType`).

The messages that are in the log stay JSON. Later messages are Avro. The change cannot be undone.
"""

from dataclasses import replace

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.schemas.compiled import require_schema
from app.schemas.versions import Registered, free_id, is_same

_FLAG = "migratedFromJsonType"


def is_migration(current: Topic, kind: object) -> bool:
    """Whether a change to the content type `kind` would make a JSON topic AVRO."""
    return current.content_type is ContentType.JSON and kind == ContentType.AVRO


def require_migration(current: Topic, kind: ContentType, *, migrated: bool) -> None:
    """Check that the topic may get this content type, and this value of `migratedFromJsonType`.

    The rules are those of Hermes.

    Raises:
        ValidationFailedError: The topic must not get this content type, or this value.
    """
    if current.content_type is ContentType.AVRO and kind is ContentType.JSON:
        message = "must be AVRO: the log has messages in Avro, and an AVRO topic never becomes JSON"
        raise ValidationFailedError.of("contentType", message)
    if current.migrated_from_json and not migrated:
        message = "must be true: the log may have messages from before the topic became AVRO"
        raise ValidationFailedError.of(_FLAG, message)
    if is_migration(current, kind) and not migrated:
        message = f"must be JSON: it changes to AVRO only together with {_FLAG}, set to true"
        raise ValidationFailedError.of("contentType", message)


def is_to_be_kept(topic: Topic, text: str) -> bool:
    """Whether the text is an Avro schema that a JSON topic stores until it becomes AVRO."""
    return (
        topic.content_type is ContentType.JSON
        and not _is_schema(ContentType.JSON, text)
        and _is_schema(ContentType.AVRO, text)
    )


def with_kept_schema(topic: Topic, text: str, registered: Registered | None = None) -> Topic:
    """Return the JSON topic with an Avro schema that takes effect when the topic becomes AVRO.

    The schema replaces an earlier Avro schema that has not taken effect yet.

    Raises:
        ValidationFailedError: The text is not an Avro schema.
    """
    require_schema(ContentType.AVRO, text)
    kept = topic.kept_schema
    if kept is not None and is_same(kept.text, text) and registered is None:
        return topic
    added = replace(_added(topic, text, registered), retired=True, kind=ContentType.AVRO)
    others = without_kept_schema(topic).schemas
    others = tuple(each for each in others if each.version != added.version)
    return replace(topic, schemas=_in_order((*others, added)))


def without_kept_schema(topic: Topic) -> Topic:
    """Return the topic without the Avro schema that it would get when it becomes AVRO."""
    schemas = tuple(each for each in topic.schemas if each.kind is not ContentType.AVRO)
    return topic if len(schemas) == len(topic.schemas) else replace(topic, schemas=schemas)


def migrated_schemas(
    topic: Topic, text: str | None, registered: Registered | None = None
) -> tuple[TopicSchema, ...]:
    """Return the schema versions of a JSON topic that becomes AVRO.

    The Avro schema is a further version after the versions of the JSON topic. If `text` is None, it
    is the Avro schema that the JSON topic has stored. Otherwise it is `text`.

    Raises:
        ValidationFailedError: The topic has no schema, or its schema is not valid.
    """
    if text is not None:
        topic = with_kept_schema(topic, text, registered)
    if topic.kept_schema is None:
        raise ValidationFailedError.of("schema", "must be there when contentType becomes AVRO")
    return tuple(_migrated(each) for each in topic.schemas)


def _is_schema(kind: ContentType, text: str) -> bool:
    try:
        require_schema(kind, text)
    except ValidationFailedError:
        return False
    return True


def _migrated(schema: TopicSchema) -> TopicSchema:
    if schema.kind is ContentType.AVRO:
        return replace(schema, retired=False, kind=None)
    return replace(schema, retired=True, kind=ContentType.JSON)


def _added(topic: Topic, text: str, registered: Registered | None) -> TopicSchema:
    if registered is not None:
        return TopicSchema(version=registered.version, id=registered.id, text=registered.text)
    last = topic.schemas[-1].version if topic.schemas else 0
    return TopicSchema(version=last + 1, id=free_id(topic, ContentType.AVRO, text), text=text)


def _in_order(schemas: tuple[TopicSchema, ...]) -> tuple[TopicSchema, ...]:
    return tuple(sorted(schemas, key=lambda each: each.version))
