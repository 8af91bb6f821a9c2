"""Converts a published message to the form that its topic stores, or says why it is refused."""

import base64
import binascii
import math
import re
from typing import Any, Final, NamedTuple

import orjson

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import FieldProblem, MessageInvalidError, ValidationFailedError
from app.domain.message import HEADER_SCHEMA_ID, HEADER_SCHEMA_VERSION
from app.json_reading import read_json
from app.schemas.compiled import Made, MadeOnce, avro_codec, json_schema
from app.schemas.json_bodies import json_body
from app.schemas.messages import PREFIX_LENGTH, prefix_id
from app.schemas.problems import AvroError, MismatchError
from app.schemas.request_work import RequestWork
from app.schemas.versions import is_registered, requested_schema

AVRO_BINARY: Final = "avro/binary"
AVRO_JSON: Final = "avro/json"
PLAIN_JSON: Final = "application/json"

_EVENT: Final = "application/cloudevents+json"
_JSON_TYPE: Final = re.compile(r"[^;]*[/+]json *(;.*)?", re.IGNORECASE)


class Given(NamedTuple):
    """A message as it was received, and the limits for it.

    `media` is the message's media type. `version` and `id` name the schema that the publisher
    requests, if it requests one.
    """

    body: bytes
    media: str
    message_id: bytes
    now_ms: int
    version: int | None = None
    id: int | None = None
    # The propagated headers: they are in the metadata of Avro messages.
    propagated: tuple[tuple[bytes, bytes], ...] = ()
    # The maximum size of the message in its stored form.
    size_max: float = math.inf
    # The work that the check of all messages of the request may still take. None if the request has
    # only this message.
    work: RequestWork | None = None


class Typed(NamedTuple):
    """A message in the form that is stored.

    If `content_type` is None, the record gets the content type from the publisher. `headers` are
    added to the record.
    """

    body: bytes
    content_type: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


def typed(topic: Topic, given: Given) -> Typed:
    """Return the message in the form that a topic with schemas stores.

    Raises:
        MessageInvalidError: The message does not match the schema.
        MessageTooLargeError: The message is too large in its stored form.
        SchemaVersionNotFoundError: The topic does not have the requested version.
        ThroughputQuotaError: All messages of the request together take too much work.
        ValidationFailedError: An AVRO topic does not accept the message's content type.
    """
    schema = requested_schema(topic, version=given.version, id=given.id)
    if schema is None:
        return Typed(given.body)
    if topic.content_type is ContentType.JSON:
        _require_valid(schema, given)
        return Typed(given.body)
    if given.media == AVRO_BINARY:
        return _checked(topic, schema, given)
    if given.media in {PLAIN_JSON, AVRO_JSON}:
        return _converted(schema, given)
    message = f"must be {PLAIN_JSON}, {AVRO_JSON} or {AVRO_BINARY} on an AVRO topic"
    raise ValidationFailedError.of("Content-Type", message)


def _usable(made: MadeOnce[Made], schema: TopicSchema) -> Made:
    """Return the schema, compiled by `made`.

    Raises:
        ValidationFailedError: The schema was stored under older rules, and is not valid now.
    """
    try:
        return made(schema.text)
    except ValidationFailedError as exc:
        problem = f"of the topic (version {schema.version}) cannot be used any more"
        raise ValidationFailedError.of("schema", f"{problem}: its owners must change it") from exc


def _require_valid(schema: TopicSchema, given: Given) -> None:
    value, prefix = json_body(given.body), ""
    if given.media == _EVENT:
        value, prefix = _data_of(value), "data"
    if problems := _usable(json_schema, schema).problems(value, given.body, given.work):
        raise MessageInvalidError([_below(prefix, each) for each in problems])


def _below(prefix: str, problem: FieldProblem) -> FieldProblem:
    if not prefix:
        return problem
    path = prefix if problem.path == "message" else f"{prefix}.{problem.path}"
    return FieldProblem(path=path, message=problem.message)


def _data_of(event: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return the data inside of a valid CloudEvent in structured mode."""
    kind = event.get("datacontenttype")
    if isinstance(kind, str) and not _JSON_TYPE.fullmatch(kind):
        raise _invalid("datacontenttype", "must be JSON: the topic has a JSON Schema")
    if "data" in event:
        return event["data"]
    try:
        return read_json(base64.b64decode(event.get("data_base64") or "", validate=True))
    except (TypeError, orjson.JSONDecodeError, binascii.Error) as exc:
        raise _invalid("data", "must be there, as JSON: the topic has a JSON Schema") from exc


def _checked(topic: Topic, schema: TopicSchema, given: Given) -> Typed:
    """Check a message that came as Avro by decoding it, and return the message.

    `schema` is the schema that the publisher requested, or else the topic's newest schema. If none
    was requested, and the message's prefix names a schema of the topic, this schema is used first.
    """
    if given.version is None and given.id is None:
        number = prefix_id(given.body)
        prefixed = next((each for each in reversed(topic.schemas) if each.id == number), None)
        if prefixed is not None and not prefixed.retired:
            try:
                return _read(prefixed, given.body[PREFIX_LENGTH:], given)
            except AvroError as exc:
                if is_registered(topic):
                    raise _invalid("message", f"{exc} (version {prefixed.version})") from exc
                # Read the whole message with the newest schema. Its first bytes only look like the
                # prefix of a known schema.
        elif number is not None and is_registered(topic):
            # Refuse the message. Its prefix names a schema that the topic does not have, and
            # another schema would misread the message.
            message = f"has the prefix of the schema {number}, which the registry does not have"
            raise _invalid("message", f"{message} for this topic: name its Schema-Version")
    try:
        return _read(schema, given.body, given)
    except AvroError as exc:
        message = f"{exc} (version {schema.version})"
        raise _invalid("message", message) from exc


def _read(schema: TopicSchema, body: bytes, given: Given) -> Typed:
    codec = _usable(avro_codec, schema)
    completed = codec.completed(
        body, metadata=_metadata(given), size_max=given.size_max, work=given.work
    )
    return Typed(completed, AVRO_BINARY.encode(), _named(schema))


def _metadata(given: Given) -> dict[str, str]:
    """Return what Hermes has in the metadata of an Avro message."""
    headers = {
        name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in given.propagated
    }
    return headers | {"messageId": given.message_id.decode(), "timestamp": str(given.now_ms)}


def _converted(schema: TopicSchema, given: Given) -> Typed:
    wrapped = given.media == AVRO_JSON
    try:
        codec, value = _usable(avro_codec, schema), json_body(given.body)
        body = codec.binary(
            value,
            wrapped=wrapped,
            metadata=_metadata(given),
            size=len(given.body),
            size_max=given.size_max,
            work=given.work,
        )
    except MismatchError as exc:
        raise MessageInvalidError([exc.reported()]) from exc
    return Typed(body, AVRO_BINARY.encode(), _named(schema))


def _named(schema: TopicSchema) -> tuple[tuple[bytes, bytes], ...]:
    return (HEADER_SCHEMA_VERSION, b"%d" % schema.version), (HEADER_SCHEMA_ID, b"%d" % schema.id)


def _invalid(path: str, message: str) -> MessageInvalidError:
    return MessageInvalidError([FieldProblem(path=path, message=message)])
