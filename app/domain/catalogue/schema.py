"""Schemas of a topic: what its messages must be, version by version."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

# The longest text of one version, and of all versions of a topic together, in characters.
SCHEMA_LENGTH_MAX: Final = 128 * 1024
SCHEMAS_LENGTH_MAX: Final = 2 * 1024 * 1024
SCHEMA_VERSIONS_MAX: Final = 500


class ContentType(StrEnum):
    """What the messages of a topic are, and what a subscription gets of them.

    A schema of a JSON topic is a JSON Schema (2020-12), one of an AVRO topic an Avro schema.
    """

    JSON = "JSON"
    AVRO = "AVRO"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """One version of a topic's schema; versions count from 1.

    `id` is the schema's in the registry; without one, made of its text. One that is `retired`
    says what older messages are, and new ones are no more held against it.
    `kind` is set where it is another than the topic's content type: on a topic that became AVRO,
    JSON for the schemas from before; on a JSON topic, AVRO for the schema that is kept for that.
    Such a version is `retired`, too.
    """

    version: int
    id: int
    text: str
    retired: bool = False
    kind: ContentType | None = None


def require_schemas(schemas: tuple[TopicSchema, ...]) -> None:
    """ValidationFailedError if a topic cannot have so many, or such large ones."""
    if len(schemas) > SCHEMA_VERSIONS_MAX:
        message = f"must be one of at most {SCHEMA_VERSIONS_MAX} versions"
        raise ValidationFailedError.of("schema", message)
    for each in schemas:
        require_length(each.text)
    if sum(len(each.text) for each in schemas) > SCHEMAS_LENGTH_MAX:
        message = f"must be, with all versions before it, at most {SCHEMAS_LENGTH_MAX} characters"
        raise ValidationFailedError.of("schema", message)


def require_length(text: str) -> None:
    """ValidationFailedError if no version can have that text."""
    if not 1 <= len(text) <= SCHEMA_LENGTH_MAX:
        message = f"must be 1 to {SCHEMA_LENGTH_MAX} characters"
        raise ValidationFailedError.of("schema", message)
