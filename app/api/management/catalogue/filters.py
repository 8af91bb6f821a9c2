"""`/filters/{topic}`: the filter debugger."""

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import answers, errors, takes
from app.api.lazy_route import LazyRoute
from app.api.management.fields.filters import FilterTrialBody, FilterTrialRead, tried
from app.api.media import answer, json_request
from app.domain.access.keys import Role
from app.domain.catalogue.schema import ContentType

router = APIRouter(prefix="/filters", tags=["subscriptions"], route_class=LazyRoute)

_EXAMPLE = {
    "filters": [{"type": "jsonpath", "path": "$.country", "matcher": "PL|DE"}],
    "message": "eyJjb3VudHJ5IjoiUEwifQ==",
}


@router.post(
    "/{topic}",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(FilterTrialRead) | errors(400, 404, 413, 415),
    openapi_extra=takes(FilterTrialBody, _EXAMPLE),
)
async def try_filters(request: Request, topic: TopicName, services: ServicesOf) -> Response:
    """Try filters on a message with the code that deliveries use. Nothing is published."""
    requested = await json_request(request)
    known = await services.topics.get(topic)
    if known.content_type is ContentType.AVRO and known.schema is not None:
        await services.schemas.prepare(known.content_type, known.schema.text)
    # Use a thread, because the conversion of a large message to Avro takes long.
    found = await asyncio.to_thread(tried, known, requested.body, strict=requested.strict)
    return answer(found)
