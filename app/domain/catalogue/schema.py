"""The schema of a topic, with all its versions. The schema validates messages."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

# The maximum number of characters of one schema version.
SCHEMA_LENGTH_MAX: Final = 128 * 1024
# The maximum number of characters of all versions of a topic together.
SCHEMAS_LENGTH_MAX: Final = 2 * 1024 * 1024
# The maximum number of schema versions of a topic.
SCHEMA_VERSIONS_MAX: Final = 500


class ContentType(StrEnum):
    """The content type of a topic's messages, and of a subscription's deliveries.

    The schema of a JSON topic is a JSON Schema (2020-12). The schema of an AVRO topic is an Avro
    schema.
    """

    JSON = "JSON"
    AVRO = "AVRO"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """One version of a topic's schema.

    Attributes:
        version: The number of the version, counted from 1.
        id: The schema's id in the registry. Without a registry, the id is made from the schema.
        text: The schema itself.
        retired: Whether the version does not validate new messages, and is kept for another reason.
        kind: The kind of the schema if it differs from the topic's content type, otherwise None. A
            topic that became AVRO has older schemas of kind JSON. A JSON topic may have a schema of
            kind AVRO, for a later change of the topic to AVRO. Both are `retired`, too.
    """

    version: int
    id: int
    text: str
    retired: bool = False
    kind: ContentType | None = None


def require_schemas(schemas: tuple[TopicSchema, ...]) -> None:
    """Check the number and the size of all versions of a topic's schema.

    Raises:
        ValidationFailedError: There are too many versions, or they are too large.
    """
    if len(schemas) > SCHEMA_VERSIONS_MAX:
        message = f"must be one of at most {SCHEMA_VERSIONS_MAX} versions"
        raise ValidationFailedError.of("schema", message)
    for each in schemas:
        require_length(each.text)
    if sum(len(each.text) for each in schemas) > SCHEMAS_LENGTH_MAX:
        message = f"must be, with all versions before it, at most {SCHEMAS_LENGTH_MAX} characters"
        raise ValidationFailedError.of("schema", message)


def require_length(text: str) -> None:
    """Check the length of a schema's text.

    Raises:
        ValidationFailedError: The text is empty or too long.
    """
    if not 1 <= len(text) <= SCHEMA_LENGTH_MAX:
        message = f"must be 1 to {SCHEMA_LENGTH_MAX} characters"
        raise ValidationFailedError.of("schema", message)
