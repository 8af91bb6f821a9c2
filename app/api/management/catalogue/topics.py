"""`/topics` and `/topics/{topic}`; publishing to the same path is `app.api.publish.route`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.access import CallerOf, requires
from app.api.bodies.base import JsonObject
from app.api.conditional import ETAG_HEADER, check, etag, if_unchanged
from app.api.dependencies import DryRun, Services, ServicesOf, TextsWanted, TopicName
from app.api.documented import IGNORED_HEADER, answers, errors, names_listed, takes
from app.api.idempotency import RepeatableRoute
from app.api.management.catalogue.topic_bodies import (
    TopicBody,
    TopicRead,
    changed_topic,
    ignored_in_topic,
    new_topic,
    topic_read,
)
from app.api.management.health import hermes_metrics
from app.api.management.health.metrics_bodies import TopicMetricsRead
from app.api.media import AnswerNotes, answer, json_request
from app.api.pages import NamePageOf, TrackedOnly, names_answer
from app.domain.access.keys import Caller, Role
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    GroupNameInvalidError,
    LogUnavailableError,
    SchemaRegistryError,
    TopicExistsError,
    TopicNotEmptyError,
)
from app.schemas.versions import NOT_REGISTERED

router = APIRouter(prefix="/topics", tags=["topics"], route_class=RepeatableRoute)

_NOTED = IGNORED_HEADER | ETAG_HEADER
_IN_LOG = (LogUnavailableError, SchemaRegistryError)


@router.get("", dependencies=[requires(Role.ANY)], responses=names_listed() | errors(400))
async def list_topics(
    request: Request,
    services: ServicesOf,
    page: NamePageOf,
    *,
    groupName: str | None = None,  # noqa: N803 - the parameter has Hermes' name
    tracked: TrackedOnly = False,
) -> Response:
    """Return all topics, or those of one group, by full name.

    An empty `groupName` means all groups.
    """
    names = await services.topics.names(group=groupName or None, page=page, tracked=tracked)
    return names_answer(request, names, page)


@router.post(
    "",
    dependencies=[requires(Role.CREATOR)],
    status_code=201,
    responses=answers(TopicRead, status=201, headers=_NOTED)
    | errors(400, 413, 415, TopicExistsError, GroupNameInvalidError, *_IN_LOG),
    openapi_extra=takes(TopicBody, {"name": "shop.orders"}),
)
async def create_topic(request: Request, services: ServicesOf, caller: CallerOf) -> Response:
    """Create a topic, and its group if that does not exist.

    The caller must own the topic or its group.
    """
    requested = await json_request(request)
    body = await _with_known_schema(services, requested.body)
    is_avro = body.get("contentType") == ContentType.AVRO
    await services.schemas.prepare(_kind(is_avro=is_avro), body.get("schema"))
    draft = new_topic(body, strict=requested.strict)
    await services.access.require_new_topic(caller, draft)
    await _require_alternate(services, caller, draft.alternate_topic)
    topic = await services.topics.create(await services.schemas.registered_draft(draft))
    notes = AnswerNotes(
        ignored=ignored_in_topic(requested.body),
        extra={"Location": f"/topics/{topic.name}", **etag(topic)},
    )
    return answer(topic_read(topic), 201, notes)


@router.get(
    "/{topic}",
    dependencies=[requires(Role.ANY)],
    responses=answers(TopicRead, headers=ETAG_HEADER) | errors(404),
)
async def get_topic(topic: TopicName, services: ServicesOf) -> Response:
    """Return one topic."""
    found = await services.topics.get(topic)
    return answer(topic_read(found), notes=AnswerNotes(extra=etag(found)))


@router.put(
    "/{topic}",
    dependencies=[requires(Role.TOPIC_OWNER)],
    responses=answers(TopicRead, headers=_NOTED) | errors(400, 404, 412, 413, 415, *_IN_LOG),
    openapi_extra=takes(TopicBody, {"description": "what customers ordered"}, patch=True),
)
async def change_topic(
    request: Request,
    topic: TopicName,
    services: ServicesOf,
    *,
    caller: CallerOf,
    dryRun: DryRun = False,  # noqa: N803 - like all names of the API
) -> Response:
    """Change a topic by a merge patch.

    With `dryRun=true` nothing changes: the response is what the change would make, or its errors.
    """
    requested = await json_request(request)
    body = await _migrated_by_registry(services, topic, requested.body)
    registered = NOT_REGISTERED
    if body.get("schema"):
        current = await services.topics.get(topic)
        given = body.get("contentType", current.content_type)
        kind = _kind(is_avro=given == ContentType.AVRO)
        await services.schemas.prepare(kind, body["schema"], current)

    def edit(current: Topic) -> Topic:
        return changed_topic(current, body, strict=requested.strict, registered=registered)

    if body.get("alternateTopic") is not None:
        current = await services.topics.get(topic)
        if (wanted := edit(current).alternate_topic) != current.alternate_topic:
            await _require_alternate(services, caller, wanted)
    if body.get("schema"):
        current = await services.topics.get(topic)
        check(request)(current)
        registered = await services.schemas.registered_change(
            current, edit(current), dry_run=dryRun
        )
    changed = await services.topics.change(topic, if_unchanged(request, edit), dry_run=dryRun)
    notes = AnswerNotes(ignored=ignored_in_topic(requested.body), extra=etag(changed))
    return answer(topic_read(changed), notes=notes)


@router.delete(
    "/{topic}",
    dependencies=[requires(Role.TOPIC_OWNER)],
    responses=answers(None) | errors(404, 412, TopicNotEmptyError, LogUnavailableError),
)
async def delete_topic(request: Request, topic: TopicName, services: ServicesOf) -> Response:
    """Delete a topic that has no subscriptions, and its messages."""
    await services.topics.delete(topic, check=check(request))
    return answer()


@router.get(
    "/{topic}/metrics",
    dependencies=[requires(Role.ANY)],
    responses=answers(TopicMetricsRead) | errors(404),
)
async def topic_metrics(topic: TopicName, services: ServicesOf, texts: TextsWanted) -> Response:
    """Return metrics of a topic; with `Prefer: figures=texts` in Hermes' form."""
    found = TopicMetricsRead.of(await services.metrics.topic(topic))
    return answer(hermes_metrics.TOPIC.of(found.answered()) if texts else found)


def _kind(*, is_avro: bool) -> ContentType:
    return ContentType.AVRO if is_avro else ContentType.JSON


async def _with_known_schema(services: Services, body: JsonObject) -> JsonObject:
    """Return `body`, with the schema of the schema registry if the body lacks one.

    A body lacks a schema if it describes an AVRO topic and has none.
    """
    name = body.get("name")
    if body.get("contentType") != ContentType.AVRO or body.get("schema") or type(name) is not str:
        return body
    known = await services.schemas.known(name)
    return body if known is None else body | {"schema": known.text}


async def _migrated_by_registry(services: Services, name: str, body: JsonObject) -> JsonObject:
    """Return `body`, with the schema of the schema registry if the body changes the topic to AVRO.

    If `body` or the topic already has a schema for AVRO, that schema is used.
    """
    if body.get("contentType") != ContentType.AVRO or body.get("schema"):
        return body
    current = await services.topics.get(name)
    if current.content_type is ContentType.AVRO or current.kept_schema is not None:
        return body
    return await _with_known_schema(services, {"name": name} | body)


async def _require_alternate(services: Services, caller: Caller, name: str | None) -> None:
    """Refuse an alternate topic to which the caller may not publish."""
    if name is not None:
        await services.access.require_feeding(caller, name, path="alternateTopic")
