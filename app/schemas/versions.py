"""Decides which new schema versions a topic can have (pure)."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import orjson

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import SchemaVersionNotFoundError, ValidationFailedError
from app.schemas.compiled import COMPILED_MAX, require_schema, schema_id


class Registered(NamedTuple):
    """A version of a topic's schema, as a registry has it."""

    version: int
    id: int
    text: str


# Stands for the registered version of a schema that no registry has.
NOT_REGISTERED: Registered | None = None


def first_schema(
    kind: ContentType, text: str, registered: Registered | None = None
) -> tuple[TopicSchema, ...]:
    """Return the schema versions of a new topic, which has only the schema `text`.

    Raises:
        ValidationFailedError: The schema is not valid.
    """
    require_schema(kind, text)
    if registered is not None:
        return (_registered(registered),)
    return (TopicSchema(version=1, id=schema_id(kind, text), text=text),)


def is_registered(topic: Topic) -> bool:
    """Whether the ids of the topic's schemas come from a registry."""
    own = (each for each in topic.schemas if each.kind is None)
    return any(each.id != _made_id(topic.content_type, each.text) for each in own)


@lru_cache(maxsize=COMPILED_MAX)
def _made_id(kind: ContentType, text: str) -> int:
    return schema_id(kind, text)


def with_schema(topic: Topic, text: str, registered: Registered | None = None) -> Topic:
    """Return the topic with the schema `text` as its newest version.

    If the newest version already has the same content, the topic is returned unchanged.

    If the schema is from a registry, compatibility is not checked, because the registry has its own
    rules.

    Raises:
        ValidationFailedError: The schema is not valid, or cannot read messages of the newest
            version.
    """
    require_schema(topic.content_type, text)
    if registered is not None:
        return with_registered(topic, [registered])
    if topic.schema is not None:
        if is_same(topic.schema.text, text):
            return topic
        require_backward(topic, text)
    last = topic.schemas[-1].version if topic.schemas else 0
    added = TopicSchema(version=last + 1, id=free_id(topic, topic.content_type, text), text=text)
    return replace(topic, schemas=(*topic.schemas, added))


def require_backward(topic: Topic, text: str) -> None:
    """Check that the new schema `text` can read messages of the topic's newest schema.

    Raises:
        ValidationFailedError: The new schema cannot read messages of the newest schema.
    """
    if topic.schema is None or not _is_readable(topic.content_type, topic.schema):
        return
    from app.schemas.compatibility import backward_problem  # noqa: PLC0415 - imports fastavro, which is seldom needed

    problem = backward_problem(topic.content_type, new=text, old=topic.schema.text)
    if problem is not None:
        message = f"cannot read messages of version {topic.schema.version}: {problem}"
        raise ValidationFailedError.of("schema", message)


def _is_readable(kind: ContentType, schema: TopicSchema) -> bool:
    """Whether messages of the schema can still be read. JSON messages always can."""
    if kind is ContentType.JSON:
        return True
    try:
        require_schema(kind, schema.text)
    except ValidationFailedError:
        # Report the current schema as unreadable, so that the new schema is accepted. The current
        # schema was stored under older rules, and the topic's owners must be able to replace it.
        return False
    return True


def with_registered(topic: Topic, found: Iterable[Registered]) -> Topic:
    """Return the topic with these schema versions of the registry.

    Versions that the registry has deleted stay in the topic.
    """
    versions = {each.version: each for each in topic.schemas}
    versions |= {each.version: _registered(each) for each in found}
    schemas = tuple(versions[number] for number in sorted(versions))
    return topic if schemas == topic.schemas else replace(topic, schemas=schemas)


def without_schema(topic: Topic) -> Topic:
    """Return the topic without a schema for new messages.

    Raises:
        ValidationFailedError: The topic must have a schema.
    """
    if topic.schema is None:
        return topic
    return replace(topic, schemas=tuple(replace(each, retired=True) for each in topic.schemas))


def requested_schema(
    topic: Topic,
    *,
    version: int | None = None,
    id: int | None = None,  # noqa: A002 - a setting has this name
) -> TopicSchema | None:
    """Return the schema with this version or id. If both are None, return the newest schema.

    The result is None if the topic has no schema.

    Raises:
        SchemaVersionNotFoundError: The version does not exist.
    """
    found = schema_if_known(topic, version=version, id=id)
    if found is not None or (version is None and id is None):
        return found
    named = f"version {version}" if version is not None else f"schema with id {id}"
    raise SchemaVersionNotFoundError(f"Topic {topic.name} has no {named}")


def schema_if_known(
    topic: Topic,
    *,
    version: int | None = None,
    id: int | None = None,  # noqa: A002 - a setting has this name
) -> TopicSchema | None:
    """Return the schema with this version or id; None if the topic does not have it.

    If both are None, return the newest schema.
    """
    if version is None and id is None:
        return topic.schema
    for each in reversed(topic.schemas):
        if not each.retired and version in {None, each.version} and id in {None, each.id}:
            return each
    return None


def is_same(text: str, other: str) -> bool:
    """Whether two schemas have the same content, apart from white space and the members' order."""
    return text == other or bool(orjson.loads(text) == orjson.loads(other))


def _registered(found: Registered) -> TopicSchema:
    return TopicSchema(version=found.version, id=found.id, text=found.text)


def free_id(topic: Topic, kind: ContentType, text: str) -> int:
    """Return an id for a new schema. No other schema of the topic has the same id.

    The id is computed from the schema's text.
    """
    found = schema_id(kind, text)
    taken = {each.id for each in topic.schemas if each.text != text}
    while found in taken:
        found += 1
    return found
