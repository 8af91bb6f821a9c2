"""`/topics/{topic}/schema`: the schema of a topic's messages, with its versions (as in Hermes)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.body import read_text
from app.api.conditional import ETAG_HEADER, check, etag
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import Responses, answers, errors
from app.api.idempotency import RepeatableRoute
from app.api.management.catalogue.schema_bodies import SchemaVersionRead, schema_versions_read
from app.api.media import AnswerNotes, answer
from app.domain.access.keys import Role
from app.domain.catalogue.schema import TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    LogUnavailableError,
    OperationDisabledError,
    SchemaRegistryError,
    SchemaVersionNotFoundError,
    ValidationFailedError,
)
from app.schemas.versions import is_same

router = APIRouter(prefix="/topics", tags=["topics"], route_class=RepeatableRoute)

_EXAMPLE: Final = {"type": "object", "required": ["order"]}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"description": "a JSON Schema (2020-12), or an Avro schema"},
                "example": _EXAMPLE,
            }
        },
    }
}
_SCHEMA_HEADERS: Final[dict[str, Any]] = {
    "Schema-Version": {"description": "which version it is", "schema": {"type": "integer"}},
    "Schema-Id": {"description": "its id", "schema": {"type": "integer"}},
}
_READ: Final[Responses] = {
    200: {
        "description": "The schema, as it was given",
        "headers": _SCHEMA_HEADERS,
        "content": {"application/json": {"schema": {}, "example": _EXAMPLE}},
    },
    204: {"description": "There is none"},
}

_VALIDATE: Final = (
    "a schema is always validated; with false, as in Hermes, a JSON topic takes an Avro schema, and"
    " keeps it for when it becomes AVRO"
)

Number = Annotated[int, Path(ge=0, le=(1 << 32) - 1)]


@router.get("/{topic}/schema", dependencies=[requires(Role.ANY)], responses=_READ | errors(404))
async def get_schema(topic: TopicName, services: ServicesOf) -> Response:
    """Return the schema that validates messages, or that is kept for the topic's change to AVRO."""
    return _response_of(_shown(await services.topics.get(topic)))


@router.get(
    "/{topic}/schema/versions",
    dependencies=[requires(Role.ANY)],
    responses=answers(SchemaVersionRead, many=True) | errors(404),
)
async def list_schema_versions(topic: TopicName, services: ServicesOf) -> Response:
    """Return all versions of the schema, the oldest first."""
    return answer(schema_versions_read(await services.topics.get(topic)))


@router.get(
    "/{topic}/schema/versions/{version}",
    dependencies=[requires(Role.ANY)],
    responses=_READ | errors(404, SchemaVersionNotFoundError, ValidationFailedError),
)
async def get_schema_version(topic: TopicName, version: Number, services: ServicesOf) -> Response:
    """Return one version of the schema, in force or not."""
    found = (await services.topics.get(topic)).schemas
    return _response_of(next((each for each in found if each.version == version), None))


@router.get(
    "/{topic}/schema/ids/{id}",
    dependencies=[requires(Role.ANY)],
    responses=_READ | errors(404, SchemaVersionNotFoundError, ValidationFailedError),
)
async def get_schema_by_id(
    topic: TopicName,
    id: Number,  # noqa: A002 - the parameter has Hermes' name
    services: ServicesOf,
) -> Response:
    """Return the version of the schema with this id, as in `Schema-Id`."""
    found = (await services.topics.get(topic)).schemas
    return _response_of(next((each for each in reversed(found) if each.id == id), None))


@router.post(
    "/{topic}/schema",
    dependencies=[requires(Role.TOPIC_OWNER)],
    status_code=201,
    responses=answers(
        None, status=201, description="In force", headers=_SCHEMA_HEADERS | ETAG_HEADER
    )
    | errors(400, 404, 412, 413, 415, LogUnavailableError, SchemaRegistryError),
    openapi_extra=_BODY,
)
async def add_schema(
    request: Request,
    topic: TopicName,
    services: ServicesOf,
    *,
    validate: Annotated[bool, Query(description=_VALIDATE)] = True,
) -> Response:
    """Add a version of the schema, which then validates messages.

    An Avro schema must be able to read messages of the version before it. Adding the current text
    again changes nothing.
    """
    text = await read_text(request)
    changed = await services.schemas.add(topic, text, keep=not validate, check=check(request))
    added = _added(changed, text)
    headers = etag(changed) | (_headers(added) if added else {})
    return answer(status=201, notes=AnswerNotes(extra=headers))


@router.delete(
    "/{topic}/schema",
    dependencies=[requires(Role.TOPIC_OWNER)],
    responses=answers(None, headers=ETAG_HEADER)
    | errors(404, 412, OperationDisabledError, LogUnavailableError),
)
async def delete_schema(request: Request, topic: TopicName, services: ServicesOf) -> Response:
    """Stop validating messages. The numbers of later versions continue."""
    changed = await services.schemas.remove(topic, check=check(request))
    return answer(notes=AnswerNotes(extra=etag(changed)))


def _added(topic: Topic, text: str) -> TopicSchema | None:
    kept = topic.kept_schema
    return kept if kept and is_same(kept.text, text) else topic.schema


def _shown(topic: Topic) -> TopicSchema | None:
    return topic.schema or topic.kept_schema


def _response_of(schema: TopicSchema | None) -> Response:
    if schema is None:
        return Response(status_code=204)
    return Response(schema.text, 200, _headers(schema), "application/json")


def _headers(schema: TopicSchema) -> dict[str, str]:
    return {"Schema-Version": str(schema.version), "Schema-Id": str(schema.id)}
