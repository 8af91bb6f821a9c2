"""A topic and the versions of its schema: which new ones it can have (pure)."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import orjson

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import SchemaVersionNotFoundError, ValidationFailedError
from app.schemas.compatibility import backward_problem
from app.schemas.compiled import COMPILED_MAX, require_schema, schema_id


class Registered(NamedTuple):
    """What a registry says of a version."""

    version: int
    id: int
    text: str


# Where there is no registry, or nothing for it.
NOT_REGISTERED: Registered | None = None


def first_schema(
    kind: ContentType, text: str, registered: Registered | None = None
) -> tuple[TopicSchema, ...]:
    """The versions of a topic that is created with this schema; ValidationFailedError."""
    require_schema(kind, text)
    if registered is not None:
        return (_registered(registered),)
    return (TopicSchema(version=1, id=schema_id(kind, text), text=text),)


def is_registered(topic: Topic) -> bool:
    """Whether the ids of its schemas are a registry's, and not made of their texts."""
    own = (each for each in topic.schemas if each.kind is None)
    return any(each.id != _made_id(topic.content_type, each.text) for each in own)


@lru_cache(maxsize=COMPILED_MAX)
def _made_id(kind: ContentType, text: str) -> int:
    return schema_id(kind, text)


def with_schema(topic: Topic, text: str, registered: Registered | None = None) -> Topic:
    """The topic with one more version, unless its newest one says just that.

    ValidationFailedError: it is no schema, or cannot read what is written by the one before. What
    a registry has taken is not held against that: there, its owners say what fits.
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
    """ValidationFailedError if that cannot read what the topic's newest schema writes."""
    if topic.schema is None or not _is_readable(topic.content_type, topic.schema):
        return
    problem = backward_problem(topic.content_type, new=text, old=topic.schema.text)
    if problem is not None:
        message = f"cannot read messages of version {topic.schema.version}: {problem}"
        raise ValidationFailedError.of("schema", message)


def _is_readable(kind: ContentType, schema: TopicSchema) -> bool:
    """Whether messages by it can be read; a JSON Schema is not looked at for that."""
    if kind is ContentType.JSON:
        return True
    try:
        require_schema(kind, schema.text)
    except ValidationFailedError:
        # It was stored under older rules: its owners must be able to replace it.
        return False
    return True


def with_registered(topic: Topic, found: Iterable[Registered]) -> Topic:
    """The topic with versions as a registry has them; those it has dropped are kept."""
    versions = {each.version: each for each in topic.schemas}
    versions |= {each.version: _registered(each) for each in found}
    schemas = tuple(versions[number] for number in sorted(versions))
    return topic if schemas == topic.schemas else replace(topic, schemas=schemas)


def without_schema(topic: Topic) -> Topic:
    """The topic without a schema that new messages are held against; ValidationFailedError."""
    if topic.schema is None:
        return topic
    return replace(topic, schemas=tuple(replace(each, retired=True) for each in topic.schemas))


def requested_schema(
    topic: Topic,
    *,
    version: int | None = None,
    id: int | None = None,  # noqa: A002 - its name
) -> TopicSchema | None:
    """The version that is named, or the newest; None: the topic has no schema.

    SchemaVersionNotFoundError.
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
    id: int | None = None,  # noqa: A002 - its name
) -> TopicSchema | None:
    """The version that is named, or the newest, if the topic has it."""
    if version is None and id is None:
        return topic.schema
    for each in reversed(topic.schemas):
        if not each.retired and version in {None, each.version} and id in {None, each.id}:
            return each
    return None


def is_same(text: str, other: str) -> bool:
    """Whether they say the same, however they are laid out."""
    return text == other or bool(orjson.loads(text) == orjson.loads(other))


def _registered(found: Registered) -> TopicSchema:
    return TopicSchema(version=found.version, id=found.id, text=found.text)


def free_id(topic: Topic, kind: ContentType, text: str) -> int:
    """The id of a schema of that kind that the topic shall have, made of its text."""
    found = schema_id(kind, text)
    taken = {each.id for each in topic.schemas if each.text != text}
    while found in taken:
        found += 1
    return found
